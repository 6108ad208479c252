package org.apache.spark.sql.streamjoin.joins.interval

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.streamjoin.base.{PredicateParts, StreamJoinConf}
import org.apache.spark.sql.streamjoin.operator.{BucketWidth, BufferLimits, StateSpec}
import org.apache.spark.sql.streamjoin.laterows.LateRows
import org.apache.spark.sql.streamjoin.state.{ProbeTimeRange, RowLayout}

import streamjoin.core.{JoinType, Side, TimeBound}

/**
 * What each task of a batch needs, as data.
 *
 * @param pair
 *   condition that a pair found by a probe still has to satisfy
 * @param broadcastMemory
 *   memory limit of the broadcast side, in bytes
 * @param broadcast
 *   side whose rows are sent to every task
 */
final private[streamjoin] case class IntervalTaskSpec(
    joinType: JoinType,
    sides: Map[Side, SideSpec],
    pair: Option[Expression],
    output: Seq[Attribute],
    limits: BufferLimits,
    broadcastMemory: Long,
    broadcast: Option[Side],
    lateRows: Option[LateRows.Spec],
    override val observed: Option[Seq[Option[Long]]],
    override val samplesKeys: Boolean
) extends StateSpec {
  override def layouts: Seq[RowLayout] = Side.both.map(sides(_).layout)

  override def bucketWidths: Seq[Long] = Side.both.map(sides(_).bucketWidth)

  /** The side that a task reads while another task keeps it. */
  def replicated(partition: Int): Option[Side] =
    broadcast.filter(_ => partition != IntervalTaskSpec.BroadcastKeeper)
}

private[streamjoin] object IntervalTaskSpec {

  /** The task that keeps the broadcast side. */
  val BroadcastKeeper = 0

  /**
   * @param late
   *   by watermark key, in microseconds: a row below it is late
   * @param evictionLimits
   *   by watermark key, in microseconds: a row below it has expired
   * @param observed
   *   as in [[StateSpec]], as is `samplesKeys`
   */
  def of(
      exec: IntervalJoinExec,
      late: IndexedSeq[Long],
      evictionLimits: IndexedSeq[Long],
      observed: Option[Seq[Option[Long]]] = None,
      samplesKeys: Boolean = false
  ): IntervalTaskSpec = {
    val join = exec.join
    def used(use: ConjunctUse): Option[Expression] =
      PredicateParts.all(exec.conjuncts.zip(join.uses).collect { case (conjunct, `use`) => conjunct })
    val delay = BucketWidth.delay(exec.left, exec.right)
    def side(side: Side, plan: SparkPlan, keys: Seq[Expression]): SideSpec = {
      val watermarkKeys = join.keys(side)
      val keeping = join.bounds.bounded(side)
      val inBounds = join.bounds.tightest.flatMap(bound => Seq(bound.out, bound.in)).toSet
      val bounded = keeping ++ watermarkKeys.filter(key => inBounds(key) && !keeping.contains(key))
      SideSpec(
        side,
        plan.output,
        keys,
        watermarkKeys.map(key => InputTime(exec.times(key), late(key))),
        bounded.map { key =>
          BoundTime(exec.times(key), Option.when(keeping.contains(key))(evictionLimits(key)))
        },
        keeping.headOption.fold(-1)(watermarkKeys.indexOf(_)),
        used(ConjunctUse.OfSide(side)),
        reach(join, side, bounded),
        bucketWidth(join, side, delay)
      )
    }
    val sides = Map[Side, SideSpec](
      Side.Left -> side(Side.Left, exec.left, exec.leftKeys),
      Side.Right -> side(Side.Right, exec.right, exec.rightKeys)
    )
    IntervalTaskSpec(
      join.joinType,
      sides,
      used(ConjunctUse.OfPair),
      exec.output,
      BufferLimits.of(exec.conf),
      exec.conf.getConf(StreamJoinConf.BroadcastMemory),
      join.broadcast,
      exec.lateRows,
      observed,
      samplesKeys && exec.leftKeys.nonEmpty && sides.values.forall(_.observedTime >= 0)
    )
  }

  /**
   * The times of the other side that a row of this one can match.
   *
   * @param bounded
   *   watermark keys of the columns in a bound, in the order of [[SideSpec.bounds]]
   */
  private def reach(join: IntervalJoinSpec, side: Side, bounded: Seq[Int]): ProbeTimeRange = {
    val target = join.bucketed(side.other)
    val bounds = join.bounds.tightest
    ProbeTimeRange(
      bounds.collect { case TimeBound(`target`, in, postpone) => bounded.indexOf(in) -> postpone },
      bounds.collect { case TimeBound(out, `target`, postpone) => bounded.indexOf(out) -> postpone }
    )
  }

  /**
   * A fraction of the time span in state: the span that a row can match or, if that is longer, the
   * retention of a row, plus the delay of the watermark. Rows leave memory one bucket at a time.
   */
  private def bucketWidth(join: IntervalJoinSpec, side: Side, delay: BigInt): Long = {
    val key = join.bucketed(side)
    val bounds = join.bounds.tightest.filter(bound => bound.out == key || bound.in == key)
    val joined = bounds.map(bound => BigInt(bound.postpone)).sum.abs
    val stays = bounds.collect { case bound if bound.out == key => BigInt(bound.postpone) }.maxOption
    BucketWidth.of(stays.foldLeft(joined)(_ max _) + delay)
  }
}
