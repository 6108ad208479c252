package org.apache.spark.sql.streamjoin.operators.interval

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.streamjoin.analysis.AwaitedColumns
import org.apache.spark.sql.streamjoin.watermark.{ColumnWatermark, RowConstraint}

import streamjoin.core.{JoinType, Side, TimeBounds}

/** How the rows of both inputs come together. */
sealed private[streamjoin] trait Routing

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
 * @param awaited
 *   the watermark keys that a stateful operator of Spark's above awaits. Each has the microseconds
 *   by which the watermark that Spark is given has to be lower. Without any, Spark is given all
 *   that the join emits.
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
    awaited: Map[Int, Long] = Map.empty
) {

  /** The side whose rows all come to every task. */
  def broadcast: Option[Side] = routing match {
    case Routing.Spread(side) => Some(side)
    case _ => None
  }

  def outputWatermark(key: Int): ColumnWatermark =
    new ColumnWatermark.Output(watermarks, bounds, key, ordinal)

  override def hashCode: Int = ordinal

  /** For Spark's texts of logical plans; that of the operator has the words for people. */
  override def toString: String = s"join ${ordinal + 1}"

  /**
   * The smallest of these is what Spark's stateful operators are given. A row at the watermark may
   * still come, but is late for Spark; so Spark is given less, unless the row counts by its window,
   * which ends later.
   */
  def outputWatermarksForSpark: Seq[ColumnWatermark] = {
    val all = if (joinType.filtered.isDefined) keys(Side.Left) else sides.indices
    val lags = if (awaited.isEmpty) all.map(_ -> AwaitedColumns.Lag) else awaited.toSeq.sorted
    lags.map { case (key, lag) => ColumnWatermark.ForSpark(outputWatermark(key), lag) }
  }

  /** With these awaited as well; of two lags for a key, the larger counts. */
  def awaiting(lags: Map[Int, Long]): JoinPlan =
    copy(awaited = (awaited.toSeq ++ lags).groupMapReduce(_._1)(_._2)(math.max))

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
