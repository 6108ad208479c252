package org.apache.spark.sql.streamjoin.operators.interval

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.streamjoin.analysis.AwaitedKeys
import org.apache.spark.sql.streamjoin.plans.FirstPartitions
import org.apache.spark.sql.streamjoin.watermark.{ColumnWatermark, RowConstraint}

import streamjoin.core.{JoinType, Side, TimeBounds}

/** How the rows of both inputs come together. */
sealed private[streamjoin] trait Routing {
  def partitions: FirstPartitions = this match {
    case Routing.ByKey => FirstPartitions.AsStores
    // Rows that go to every task go to no more than can run at once.
    case _: Routing.Spread => FirstPartitions.AtOnce
    case Routing.OneTask => FirstPartitions.One
  }
}

private[streamjoin] object Routing {

  /** Equal keys in one task. */
  case object ByKey extends Routing

  /**
   * Without an equality: every row of one side to all tasks, each row of the other to one of them.
   */
  final case class Spread(broadcast: Side) extends Routing

  /**
   * Without an equality, and both sides preserved: whether a row has matched would lie in all
   * tasks.
   */
  case object OneTask extends Routing

  def of(joinType: JoinType, equality: Boolean): Routing =
    if (equality) ByKey
    else if (Side.both.forall(joinType.pads)) OneTask
    else Spread(if (joinType.pads(Side.Right)) Side.Left else Side.Right)
}

/**
 * What a join of two streams does, as data: worked out once, by analysis, and used by the logical
 * and the physical node.
 *
 * Watermark keys number the event-time columns of the left input, then those of the right one.
 *
 * @param sides
 *   by watermark key
 * @param watermarks
 *   by watermark key
 * @param found
 *   the bounds as they were found, the tightest of each pair of columns
 * @param condition
 *   the condition beside the equalities, in the form that checkpoints have
 * @param ordinal
 *   which join of the query this is, from the inputs up: the number of its state
 * @param constraints
 *   what holds between the event-time columns of one input, from the conditions below
 */
final private[streamjoin] case class JoinPlan(
    joinType: JoinType,
    sides: IndexedSeq[Side],
    watermarks: IndexedSeq[ColumnWatermark],
    bounds: TimeBounds,
    found: Seq[FoundBound],
    condition: String,
    ordinal: Int,
    constraints: Seq[RowConstraint],
    routing: Routing,
    awaited: AwaitedKeys = AwaitedKeys.none
) {

  /** The side whose rows all come to every task. */
  def broadcast: Option[Side] = routing match {
    case Routing.Spread(side) => Some(side)
    case _ => None
  }

  def outputWatermark(key: Int): ColumnWatermark =
    new ColumnWatermark.OfJoin(watermarks, bounds, key, ordinal)

  override def hashCode: Int = ordinal

  /** For Spark's texts of logical plans; that of the operator has the words for people. */
  override def toString: String = s"join ${ordinal + 1}"

  def outputWatermarksForSpark: Seq[ColumnWatermark] =
    awaited.forSpark(if (joinType.filtered.isDefined) keys(Side.Left) else sides.indices, outputWatermark)

  /** The watermark keys of a side. */
  def keys(side: Side): IndexedSeq[Int] = sides.indices.filter(sides(_) == side)

  /**
   * The columns that are emitted. Where rows of one side are padded, the columns of the other are
   * nullable.
   */
  def output(left: Seq[Attribute], right: Seq[Attribute]): Seq[Attribute] = {
    def padded(side: Side, attributes: Seq[Attribute]): Seq[Attribute] =
      if (joinType.pads(side.other)) attributes.map(_.withNullability(true)) else attributes
    if (joinType.filtered.isDefined) left else padded(Side.Left, left) ++ padded(Side.Right, right)
  }
}
