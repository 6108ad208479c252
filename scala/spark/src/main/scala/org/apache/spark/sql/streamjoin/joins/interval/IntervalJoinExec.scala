package org.apache.spark.sql.streamjoin.joins.interval

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.physical._
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streamjoin.analysis.OperatorSpec
import org.apache.spark.sql.streamjoin.base.{PredicateParts, StreamJoinConf}
import org.apache.spark.sql.streamjoin.batch.BatchBinding
import org.apache.spark.sql.streamjoin.checkpoint.{InputOutline, KeepingLimit, OperatorOutline}
import org.apache.spark.sql.streamjoin.operator.{
  BucketWidth,
  BufferLimits,
  OperatorKind,
  StateToRewrite,
  StoredColumns,
  TwoStreamsExec,
  WholeRow
}
import org.apache.spark.sql.streamjoin.state.ProbeTimeRange
import org.apache.spark.sql.streamjoin.watermark.{ColumnWatermark, WatermarkValues}

import streamjoin.core.{JoinType, Side, TimeBound, Watermark}

/**
 * The interval join of two streams, with state bounded by the watermarks of its event-time columns.
 *
 * {{{
 *   orders -- hash(order_id) --+                        +-- orders kept 1 hour --+
 *                              +-- task: probe, emit ---+                        +-- state store
 *   deliveries - hash(order_id)+                        +-- deliveries kept 0 s -+   (one per task)
 * }}}
 *
 * The time bounds in the condition bound the state. With `d.time BETWEEN o.time AND o.time + 1
 * hour`, a delivery at 12:00 can only match an order at 11:00 or later. Once the watermark of
 * `d.time` has reached 12:00, no delivery before 12:00 can still arrive, so orders before 11:00 can
 * be evicted. Likewise, once the watermark of `o.time` has reached 12:00, deliveries before 12:00
 * can be evicted. Each column has its own watermark: a stalled stream delays eviction on the other
 * side of its join and nothing else in the query.
 *
 * A row may also carry the time at which it leaves: with `b.time BETWEEN a.time AND a.expires`, an
 * auction is evicted once the watermark of `b.time` has passed its `expires` ([[CarriedBound]]).
 *
 * @param carried
 *   the stored values by which rows expire that carry them
 * @param join
 *   plan of the join, as data
 * @param binding
 *   the batch, or none if the plan is only explained
 * @param sparks
 *   in the batch in which it takes over a join of Spark's
 */
final private[streamjoin] case class IntervalJoinExec(
    leftKeys: Seq[Expression],
    rightKeys: Seq[Expression],
    conjuncts: Seq[Expression],
    override val times: Seq[Attribute],
    carried: Seq[Expression],
    join: IntervalJoinSpec,
    override val binding: Option[BatchBinding],
    left: SparkPlan,
    right: SparkPlan,
    sparks: Option[SparksProgress] = None
) extends TwoStreamsExec {

  override protected def kind: OperatorKind = IntervalJoinKind

  override lazy val output: Seq[Attribute] = StoredColumns.of(join.output(left.output, right.output))

  override def ordinal: Int = join.ordinal

  override def requiredChildDistribution: Seq[Distribution] = join.routing match {
    case Routing.ByKey => Seq(leftKeys, rightKeys).map(StatefulOpClusteredDistribution(_, numPartitions))
    case Routing.OneTask => Seq(AllTuples, AllTuples)
    case Routing.Spread(broadcast) =>
      Side.both.map { side =>
        // The strategy has already broadcast it to all tasks.
        if (side == broadcast) UnspecifiedDistribution
        else StatefulOpClusteredDistribution(WholeRow.hashed(input(side).output), numPartitions)
      }
  }

  /** A padded row stays in the partition of its own key; the other side's keys are null. */
  override def outputPartitioning: Partitioning = (join.routing, join.joinType) match {
    case (Routing.Spread(broadcast), _) => input(broadcast.other).outputPartitioning
    case (_, JoinType.Inner) =>
      PartitioningCollection(Seq(left.outputPartitioning, right.outputPartitioning))
    case (_, JoinType.LeftOuter | JoinType.LeftSemi | JoinType.LeftAnti) => left.outputPartitioning
    case (_, JoinType.RightOuter) => right.outputPartitioning
    case (_, JoinType.FullOuter) => UnknownPartitioning(left.outputPartitioning.numPartitions)
  }

  override protected def withNewChildrenInternal(newLeft: SparkPlan, newRight: SparkPlan): IntervalJoinExec =
    copy(left = newLeft, right = newRight)

  // Watermarks and state.

  override def watermarks: IndexedSeq[ColumnWatermark] = join.watermarks

  /** Rows that carry their ends have an event time, even if they expire by the ends alone. */
  override def firstTime(input: InputOutline): Option[Int] =
    Side.both.find(side => input.side.contains(side.name)).map(join.observed)

  override protected def definition: OperatorSpec = join

  override protected def expiryKeys: Int = watermarks.size + join.carried.size

  override protected def evictionLimits(values: WatermarkValues): IndexedSeq[Long] = {
    val received = watermarks.map(_.value(values))
    (received.indices ++ join.carried.map(_.key)).map { key =>
      if (IntervalJoinExec.keepsAll) Watermark.Undefined else join.bounds.evictionLimit(key, received)
    }
  }

  override def lowestNeeded: Map[Int, Long] =
    if (!hasReported) Map.empty
    else join.lowestNeeded.map(key => key -> lowestKept(key).getOrElse(Long.MaxValue)).toMap

  // Execution.

  override protected[streamjoin] def taskSpec: IntervalTaskSpec = {
    val limits = evictionLimits(binding.get.evictionValues)
    val delay = BucketWidth.delay(left, right)
    val sides = Side.both
      .zip(Seq(leftKeys, rightKeys))
      .map { case (side, keys) => side -> sideSpec(side, keys, limits, delay) }
      .toMap
    IntervalTaskSpec(
      join.joinType,
      sides,
      used(ConjunctUse.OfPair),
      output,
      BufferLimits.of(conf),
      conf.getConf(StreamJoinConf.BroadcastMemory),
      join.broadcast,
      binding.get.steps(ordinal),
      lateRows,
      observed(Side.both.map(side => Some(join.observed(side)))),
      binding.get.observedRows(ordinal).samplesKeys &&
        leftKeys.nonEmpty && sides.values.forall(_.observedTime >= 0),
      leaving = binding.get.states.isTakenOver(ordinal) || binding.get.rewritten(ordinal).isDefined
    )
  }

  override protected def otherState(settings: SQLConf): Option[StateToRewrite] =
    binding.filter(_.states.isTakenOver(ordinal)).map { batch =>
      val (join, info) = batch.states.sparksState(ordinal)
      SparksState.of(join, info, taskSpec, sparks.fold(Map.empty[Side, SparksLimit])(_.limits), settings)
    }

  private def used(use: ConjunctUse): Option[Expression] =
    PredicateParts.all(conjuncts.zip(join.uses).collect { case (conjunct, `use`) => conjunct })

  /**
   * @param limits
   *   by watermark key, in microseconds: a row below it has expired
   */
  private def sideSpec(
      side: Side,
      keys: Seq[Expression],
      limits: IndexedSeq[Long],
      delay: BigInt
  ): SideSpec = {
    val watermarkKeys = join.keys(side)
    val keeping = join.bounds.bounded(side)
    val bounded = join.inBounds(side)
    val byLifetimes = join.carried
      .find(_.key == join.bucketed(side))
      .map(one => BucketWidth.ofLifetimes(bounded.indexOf(one.from), delay))
    SideSpec(
      side,
      StoredColumns.of(input(side).output),
      keys,
      watermarkKeys.map(key => InputTime(times(key), lateBelow(key))),
      bounded.map(key => BoundTime(time(key), key, Option.when(keeping.contains(key))(limits(key)))),
      watermarkKeys.indexOf(join.observed(side)),
      bounded.indexOf(join.observed(side)),
      used(ConjunctUse.OfSide(side)),
      reach(side, bounded),
      byLifetimes.fold(bucketWidth(join.bucketed(side), delay))(_.narrowest),
      byLifetimes,
      join.carried.find(one => one.side == side && one.max.fails).map(lifetime(_, bounded))
    )
  }

  private def lifetime(of: CarriedKey, bounded: Seq[Int]): Lifetime = Lifetime(
    bounded.indexOf(of.key),
    bounded.indexOf(of.time.get),
    of.max.micros.get,
    names.text(of.bound.value),
    columnsInWords(of.time.get)
  )

  /** The column of a watermark key, or the value that rows carry. */
  private def time(key: Int): Expression =
    if (times.indices.contains(key)) times(key) else carried(key - times.size)

  /**
   * When a join of Spark's is taken over, the rows that the join below emits first are those that
   * Spark's join below had: it may have kept them a little longer than ours would have.
   */
  private def lateBelow(key: Int): Long = sparks
    .filter(_ => ColumnWatermark.outputs(watermarks(key)).nonEmpty)
    .fold(late(key))(spark => math.min(late(key), spark.lateBelow))

  /**
   * The times of the other side that a row of this one can match.
   *
   * @param bounded
   *   watermark keys of the columns in a bound, in the order of [[SideSpec.bounds]]
   */
  private def reach(side: Side, bounded: Seq[Int]): ProbeTimeRange = {
    val bounds = join.bounds.tightest
    def range(target: Int) = ProbeTimeRange(
      bounds.collect { case TimeBound(`target`, in, postpone) => bounded.indexOf(in) -> postpone },
      bounds.collect { case TimeBound(out, `target`, postpone) => bounded.indexOf(out) -> postpone }
    )
    val ranges = join.bounds.bounded(side.other).map(range)
    ranges.head.copy(others = ranges.tail)
  }

  /**
   * A fraction of the time span in state. That is the span that a row can match or the retention of
   * a row, whichever is longer, plus the delay of the watermark. Rows leave memory one bucket at a
   * time.
   */
  private def bucketWidth(key: Int, delay: BigInt): Long = {
    val ofValues =
      join.carried.flatMap(one => one.key +: one.time.filterNot(_ => one.max.isBound).toSeq).toSet
    val bounds =
      join.bounds.tightest.filter(bound => bound.out == key || bound.in == key && !ofValues(bound.out))
    val joined = bounds.map(bound => BigInt(bound.postpone)).sum.abs
    val stays = bounds.collect { case bound if bound.out == key => BigInt(bound.postpone) }.maxOption
    BucketWidth.of(stays.foldLeft(joined)(_ max _) + delay)
  }

  override protected def makeOutline: OperatorOutline = {
    val spec = taskSpec
    OperatorOutline(
      ordinal,
      IntervalJoinKind.name,
      s"${join.joinType.name.replace('_', ' ')} interval join",
      columnsInWords ++ join.carried.map(one => names.text(one.bound.value)),
      Side.both.map { side =>
        val kept = spec.sides(side)
        InputOutline(
          Some(side.name),
          names.name(side),
          DataTypeUtils.fromAttributes(kept.stored),
          kept.output.size,
          kept.layout,
          join.bounds.bounded(side),
          join.bounds.bounded(side).zipWithIndex.flatMap { case (key, at) =>
            join.bounds.tightest
              .filter(_.out == key)
              .map(bound => KeepingLimit(at, bound.in, bound.postpone))
          },
          recordsMatches = join.joinType.pads(side)
        )
      }
    )
  }

  // EXPLAIN and progress.

  override protected def sides: IndexedSeq[Side] = join.sides

  override protected def expressionsInWords: Seq[Expression] = leftKeys ++ rightKeys ++ conjuncts

  override protected def words: Seq[String] =
    new IntervalJoinExplain(join, times, names, watermarksInWords)
      .description(leftKeys, rightKeys, PredicateParts.all(written), numPartitions)

  /** The conditions as users write them: the bounds say where values are cut off. */
  private def written: Seq[Expression] = conjuncts.filterNot(_.isInstanceOf[WithinLifetime])
}

private[streamjoin] object IntervalJoinExec {

  /** For tests, which compare a query with itself when no row ever leaves. */
  @volatile private[streamjoin] var keepsAll: Boolean = false
}
