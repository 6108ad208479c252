package org.apache.spark.sql.streamjoin.plans

import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.catalyst.expressions.{Left => _, Right => _, _}
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.plans.{JoinType => SparkJoinType}
import org.apache.spark.sql.streamjoin.analysis.FoundBound
import org.apache.spark.sql.streamjoin.watermark.{ColumnWatermark, RowConstraint}
import org.apache.spark.sql.types.TimestampType

import streamjoin.core.{JoinType, Left, Right, Side, TimeBounds}

/**
 * A join of two streams that we run, out of sight of Spark's checker of unsupported operations, which
 * refuses some of them (left anti joins; outer joins whose bound it does not see). It stands in the query
 * for as long as the checker looks at it, and is a `Join` again before anything else is done
 * ([[org.apache.spark.sql.streamjoin.RestoreJoins]]).
 */
final private[streamjoin] case class HiddenJoin(
    left: LogicalPlan,
    right: LogicalPlan,
    joinType: SparkJoinType,
    condition: Option[Expression],
    hint: JoinHint
) extends BinaryNode {
  lazy val join: Join = Join(left, right, joinType, condition, hint)

  override def output: Seq[Attribute] = join.output

  override protected def withNewChildrenInternal(newLeft: LogicalPlan, newRight: LogicalPlan): HiddenJoin =
    copy(left = newLeft, right = newRight)
}

/**
 * An operator that is refused. Only a plan that is explained has one: `start()` throws the refusal.
 *
 * @param what
 *   the operator in a word
 */
final private[streamjoin] case class Refused(
    what: String,
    output: Seq[Attribute],
    children: Seq[LogicalPlan],
    refusal: AnalysisException
) extends LogicalPlan {

  // The exception has neither columns nor nodes in it, but says equals to itself alone.
  override protected def stringArgs: Iterator[Any] = Iterator(what, refusal.getCondition)

  override protected def withNewChildrenInternal(newChildren: IndexedSeq[LogicalPlan]): Refused =
    copy(children = newChildren)
}

/** A node that only keeps Spark's rules from its child. Planned away by the strategy: later batches of the optimizer push again. */
sealed private[streamjoin] trait Barrier extends UnaryNode {
  override def output: Seq[Attribute] = child.output
}

/**
 * Stands on an `EventTimeWatermark` and keeps filters above it until it is known which of them Spark would
 * push below: the same in every batch, whatever is in the batch ([[analysis.WatermarkPlacement]]).
 *
 * @param known
 *   what holds for all rows below, worked out from the query. Spark works it out from the plan of a batch:
 *   where an input has no rows in it, it knows more or less than in the batch before, and would filter the
 *   other input of the join by it.
 */
final private[streamjoin] case class WatermarkBarrier(child: LogicalPlan, known: Seq[Expression])
    extends Barrier {
  override protected lazy val validConstraints: ExpressionSet = ExpressionSet(known)

  override protected def withNewChildInternal(newChild: LogicalPlan): WatermarkBarrier =
    copy(child = newChild)
}

/**
 * The left input of a left semi or anti join, which Spark would push below an aggregate (in batches whose right side is small),
 * into each branch of a union, or below another join: the join would keep other rows than in the batch before, or be several.
 */
final private[streamjoin] case class JoinBarrier(child: LogicalPlan) extends Barrier {
  override protected def withNewChildInternal(newChild: LogicalPlan): JoinBarrier = copy(child = newChild)
}

/**
 * Stands below an `EventTimeWatermark` of a column that may be null, where the newest time is noted without the nulls. The
 * strategy puts it there.
 */
final private[streamjoin] case class NewestTime(time: Attribute, child: LogicalPlan) extends UnaryNode {
  override def output: Seq[Attribute] = child.output

  override protected def withNewChildInternal(newChild: LogicalPlan): NewestTime = copy(child = newChild)
}

private[streamjoin] object NewestTime {

  /** A plan with all its marks, noted. */
  def noted(plan: LogicalPlan): LogicalPlan = plan.transform {
    case mark @ EventTimeWatermark(_, time, _, child)
        if time.nullable && time.dataType == TimestampType && !child.isInstanceOf[NewestTime] =>
      mark.copy(child = NewestTime(time, child))
  }
}

/** How the rows of both inputs come together. */
sealed private[streamjoin] trait Routing

private[streamjoin] object Routing {

  /** Equal keys in one task. */
  case object ByKey extends Routing

  /** Without an equality: every row of one side to all tasks, each row of the other to one of them. */
  final case class Spread(broadcast: Side) extends Routing

  /** Without an equality, and both sides preserved: whether a row has matched would lie in all tasks. */
  case object OneTask extends Routing

  def of(joinType: JoinType, equality: Boolean): Routing =
    if (equality) ByKey
    else if (Side.both.forall(joinType.pads)) OneTask
    else Spread(if (joinType.pads(Right)) Left else Right)
}

/**
 * What a join of two streams does, as data: worked out once, by analysis, and used by the logical and the physical node.
 *
 * Watermark keys number the event-time columns of the left input, then those of the right one.
 *
 * @param sides
 *   by watermark key
 * @param watermarks
 *   by watermark key
 * @param found
 *   the bounds as they were found, the tightest of each pair of columns
 * @param written
 *   the condition beside the equalities as text, before the optimizer puts the time of a batch in
 * @param ordinal
 *   which join of the query this is, from the inputs up: the number of its state
 * @param constraints
 *   what holds between the event-time columns of one input, from the conditions below
 * @param asked
 *   the watermark keys that a stateful operator of Spark's above waits for, each with how far behind the watermark it has to
 *   be told, in microseconds; where there is none, all that go on
 */
final private[streamjoin] case class JoinPlan(
    joinType: JoinType,
    sides: IndexedSeq[Side],
    watermarks: IndexedSeq[ColumnWatermark],
    bounds: TimeBounds,
    found: Seq[FoundBound],
    written: String,
    ordinal: Int,
    constraints: Seq[RowConstraint],
    routing: Routing,
    asked: Map[Int, Long] = Map.empty
) {

  /** The side whose rows all come to every task. */
  def broadcast: Option[Side] = routing match {
    case Routing.Spread(side) => Some(side)
    case _ => None
  }

  /** The watermark of a key behind the join. */
  def handedOn(key: Int): ColumnWatermark = new ColumnWatermark.Joined(watermarks, bounds, key, ordinal)

  override def hashCode: Int = ordinal

  /** For Spark's texts of logical plans; that of the operator has the words for people. */
  override def toString: String = s"join ${ordinal + 1}"

  /**
   * What Spark's stateful operators are told, the smallest of these. A row at a watermark may still come; for Spark it is late
   * then, unless it is told by the window that it is in, which ends later.
   */
  def answers: Seq[ColumnWatermark] = {
    val all = if (joinType.filtered.isDefined) keys(Left) else sides.indices
    val told = if (asked.isEmpty) all.map(_ -> JoinPlan.Behind) else asked.toSeq.sorted
    told.map { case (key, behind) => ColumnWatermark.Told(handedOn(key), behind) }
  }

  /** The watermark keys of a side. */
  def keys(side: Side): IndexedSeq[Int] = sides.indices.filter(sides(_) == side)

  /** What comes out: a side that can come out padded is nullable on the other side. */
  def output(left: Seq[Attribute], right: Seq[Attribute]): Seq[Attribute] = {
    def padded(side: Side, attributes: Seq[Attribute]): Seq[Attribute] =
      if (joinType.pads(side.other)) attributes.map(_.withNullability(true)) else attributes
    if (joinType.filtered.isDefined) left else padded(Left, left) ++ padded(Right, right)
  }
}

private[streamjoin] object JoinPlan {

  /** So that a row at the watermark is not below what Spark is told. */
  val Behind = 1L
}

/**
 * The interval join, recognised and bounded.
 *
 * @param condition
 *   what is left of the join condition for a pair of rows whose keys are equal: everything but the equalities
 * @param times
 *   the event-time columns by watermark key: expressions of the node, so that they stay in the inputs and follow when
 *   a rule renames a column
 */
final private[streamjoin] case class IntervalJoin(
    left: LogicalPlan,
    right: LogicalPlan,
    leftKeys: Seq[Expression],
    rightKeys: Seq[Expression],
    condition: Option[Expression],
    times: Seq[Attribute],
    plan: JoinPlan
) extends BinaryNode {

  override def output: Seq[Attribute] = plan.output(left.output, right.output)

  /** Not what the rows of the batch say: rows of its state come out too, however small the batch is. */
  override def stats: Statistics = Statistics(sizeInBytes = conf.defaultSizeInBytes)

  override protected def withNewChildrenInternal(newLeft: LogicalPlan, newRight: LogicalPlan): IntervalJoin =
    copy(left = newLeft, right = newRight)
}
