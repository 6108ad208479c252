package org.apache.spark.sql.streamjoin.joins.interval

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.streamjoin.analysis.{AwaitedKeys, OperatorSpec}
import org.apache.spark.sql.streamjoin.evolve.RecordedInterval
import org.apache.spark.sql.streamjoin.plans.FirstPartitions
import org.apache.spark.sql.streamjoin.watermark.{ColumnWatermark, RowConstraint}

import streamjoin.core.{JoinType, Side, TimeBound, TimeBounds}

/** How the rows of both inputs get to the same task. */
sealed private[streamjoin] trait Routing {
  def partitions: FirstPartitions = this match {
    case Routing.ByKey => FirstPartitions.AsSet
    // Broadcast rows go to every task, so there are no more tasks than can run at once.
    case _: Routing.Spread => FirstPartitions.AtOnce
    case Routing.OneTask => FirstPartitions.One
  }
}

private[streamjoin] object Routing {

  /** Rows with equal keys go to the same task. */
  case object ByKey extends Routing

  /**
   * Without an equality: one side is broadcast to all tasks, and each row of the other side goes to
   * one task.
   */
  final case class Spread(broadcast: Side) extends Routing

  /**
   * Without an equality and with both sides preserved: with several tasks, none would know whether
   * a broadcast row has matched.
   */
  case object OneTask extends Routing

  def of(joinType: JoinType, equality: Boolean): Routing =
    if (equality) ByKey
    else if (Side.both.forall(joinType.pads)) OneTask
    else Spread(if (joinType.pads(Side.Right)) Side.Left else Side.Right)
}

/** How a conjunct of the condition is used. */
sealed private[streamjoin] trait ConjunctUse

private[streamjoin] object ConjunctUse {

  /** A row of this side that fails it has no match. */
  final case class OfSide(side: Side) extends ConjunctUse

  /**
   * It compares only the two times that a probe compares, and exactly so: every pair that a probe
   * finds satisfies it.
   */
  case object OfProbe extends ConjunctUse

  /** It is evaluated for each pair. */
  case object OfPair extends ConjunctUse
}

/**
 * The plan of a join of two streams, as data: computed once, by analysis, and shared by the logical
 * and the physical node.
 *
 * Watermark keys number the event-time columns of the left input, then those of the right one.
 *
 * @param sides
 *   side by watermark key
 * @param watermarks
 *   watermarks received, by watermark key
 * @param found
 *   bounds found in the condition, the tightest for each pair of columns
 * @param condition
 *   condition without the equalities, in the form that checkpoints store
 * @param record
 *   what checkpoints store for programs
 * @param uses
 *   how each conjunct of the condition is used
 * @param ordinal
 *   position of the join in the query, from the inputs up; it identifies the state
 * @param constraints
 *   constraints between event-time columns of one input, from the conditions below
 * @param carried
 *   values that the rows of a side carry and by which they expire, numbered after the watermark
 *   keys
 */
final private[streamjoin] case class IntervalJoinSpec(
    joinType: JoinType,
    sides: IndexedSeq[Side],
    watermarks: IndexedSeq[ColumnWatermark],
    bounds: TimeBounds,
    found: Seq[FoundBound],
    condition: String,
    record: RecordedInterval,
    uses: Seq[ConjunctUse],
    ordinal: Int,
    constraints: Seq[RowConstraint],
    routing: Routing,
    carried: Seq[CarriedKey] = Nil,
    awaited: AwaitedKeys = AwaitedKeys.none
) extends OperatorSpec {

  override protected def outputKeys: Seq[Int] = sides.indices

  override protected def emittedKeys: Seq[Int] =
    if (joinType.filtered.isDefined) keys(Side.Left) else sides.indices

  override def tasks: Option[FirstPartitions] = Some(routing.partitions)

  /** The side whose rows are sent to every task. */
  def broadcast: Option[Side] = routing match {
    case Routing.Spread(side) => Some(side)
    case _ => None
  }

  override def outputWatermark(key: Int): ColumnWatermark =
    new ColumnWatermark.OfJoin(watermarks, bounds, key, ordinal)

  override def compared: Map[Int, Set[Int]] = bounds.compared

  override def known: Seq[TimeBound] = bounds.constraints

  override def leavesBy(key: Int): Option[Int] = bounds.bounded(sides(key)).find(sides.indices.contains)

  /**
   * The watermark keys whose output watermarks depend on the lowest time in state, as far as tasks
   * know it: for columns that expire rows.
   */
  def lowestNeeded: Seq[Int] =
    Side.both.flatMap(side => bounds.bounded(side).filter(bounds.lowestNeeded(side)))

  /** The watermark key by which the rows of a side are bucketed: the first that expires them. */
  def bucketed(side: Side): Int = bounds.bounded(side).head

  /**
   * The watermark key by which the rows of a side are observed: the first that expires them, or the
   * one from which the time counts that they carry.
   */
  def observed(side: Side): Int = {
    val first = bucketed(side)
    carried.find(_.key == first).fold(first)(_.from)
  }

  /**
   * The keys of the times in the stored rows of a side, and of the values that they carry: those
   * that expire a row first.
   */
  def inBounds(side: Side): Seq[Int] = {
    val keeping = bounds.bounded(side)
    val compared = bounds.tightest.flatMap(bound => Seq(bound.out, bound.in)).toSet
    keeping ++ keys(side).filter(key => compared(key) && !keeping.contains(key))
  }

  /** The watermark keys of a side. */
  def keys(side: Side): IndexedSeq[Int] = sides.indices.filter(sides(_) == side)

  /**
   * The columns that are emitted. If rows of one side are padded, the columns of the other are
   * nullable.
   */
  def output(left: Seq[Attribute], right: Seq[Attribute]): Seq[Attribute] = {
    def padded(side: Side, attributes: Seq[Attribute]): Seq[Attribute] =
      if (joinType.pads(side.other)) attributes.map(_.withNullability(true)) else attributes
    if (joinType.filtered.isDefined) left else padded(Side.Left, left) ++ padded(Side.Right, right)
  }
}
