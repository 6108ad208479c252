package org.apache.spark.sql.streamjoin.watermark

import java.util.UUID

import org.apache.spark.sql.catalyst.expressions.{Left => _, Right => _, _}
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.streamjoin.analysis.LinearTime
import org.apache.spark.sql.streamjoin.plans.IntervalJoin
import org.apache.spark.sql.types.{StructType, TimestampType}

/**
 * Follows a column of an optimized plan down to the watermark that it carries. Pure: plans in, data out.
 *
 * @param origins
 *   the marks of the whole query, by node and column
 */
final private[streamjoin] class WatermarkLineage(origins: Map[(UUID, ExprId), Origin]) {
  import ColumnWatermark._
  import WatermarkLineage._

  /**
   * The watermark of a column of `plan`'s output, or none where it carries none. That of a window counts for the last
   * instant in it.
   */
  def of(column: Attribute, plan: LogicalPlan): Option[ColumnWatermark] = plan match {
    case mark: EventTimeWatermark =>
      // A second mark takes the first one off (EventTimeWatermark.updateEventTimeColumn).
      // Spark takes a mark on a window, and reads no times from it.
      if (mark.eventTime.exprId == column.exprId && column.dataType == TimestampType)
        origins.get((mark.nodeId, column.exprId)).map(Marked)
      else None

    case Project(list, child) =>
      list.find(_.exprId == column.exprId).flatMap {
        case attribute: Attribute => of(attribute, child)
        case alias: Alias if isWindow(column) => ofWindow(alias, child)
        case Alias(LastInstant(window), _) => of(window, child)
        case alias: Alias => ofSum(alias.child, child)
        case _ => None
      }

    case Expand(projections, output, child) if isWindow(column) =>
      // Sliding windows: one projection for each window that a row is in.
      val at = output.indexWhere(_.exprId == column.exprId)
      if (at < 0) None
      else
        projections.head(at) match {
          case attribute: Attribute => of(attribute, child)
          case window => marks(window, child).headOption
        }

    case union: Union =>
      val at = union.output.indexWhere(_.exprId == column.exprId)
      val branches = union.children.map(child => of(child.output(at), child))
      if (branches.forall(_.isDefined)) Some(Smallest(branches.flatten)) else None

    case join: IntervalJoin =>
      val key = join.times.indexWhere(_.exprId == column.exprId)
      if (key < 0) None else Some(join.plan.handedOn(key))

    // How far back its rows reach depends on its own state.
    case join: Join if isStateful(join) => None

    case stateful if isStateful(stateful) =>
      if (isMarked(column) || isLastInstant(column, stateful))
        Some(Propagated(stateful.children.flatMap(told)))
      else None

    case other =>
      other.children.find(_.output.exists(_.exprId == column.exprId)).flatMap(of(column, _))
  }

  /** What a stateful operator of Spark's is told from below (`PropagateWatermarkSimulator`). */
  private def told(plan: LogicalPlan): Seq[ColumnWatermark] = plan match {
    case join: IntervalJoin => join.plan.answers
    case _: EventTimeWatermark => Seq(SparkWide)
    case join: Join if isStateful(join) => Seq(Unknown)
    case stateful if isStateful(stateful) => Seq(Propagated(stateful.children.flatMap(told)))
    case other => other.children.flatMap(told)
  }

  /** Of a window that an aggregate groups by: Spark marks the column, but not in every branch of a union. */
  private def isLastInstant(column: Attribute, stateful: LogicalPlan): Boolean = stateful match {
    case aggregate: Aggregate =>
      aggregate.aggregateExpressions.exists {
        case alias @ Alias(LastInstant(window), _) => alias.exprId == column.exprId && isMarked(window)
        case _ => false
      }
    case _ => false
  }

  private def ofSum(expression: Expression, child: LogicalPlan): Option[ColumnWatermark] =
    LinearTime
      .of(expression)
      .toOption
      .collect { case LinearTime(Seq(base), Seq(), constant, below, _) =>
        of(base, child)
          .map(watermark => if (constant == below) watermark else Shifted(constant - below, watermark))
      }
      .flatten

  /** `TimeWindowing` gives a window the metadata of its time column; the marked column under it is the one. */
  private def ofWindow(alias: Alias, child: LogicalPlan): Option[ColumnWatermark] =
    if (isMarked(alias.toAttribute)) marks(alias.child, child).headOption else None

  private def marks(expression: Expression, child: LogicalPlan): Seq[ColumnWatermark] =
    expression.references.toSeq.filter(isTime).flatMap(of(_, child))
}

/** `window_time(window)` as `ResolveWindowTime` has it: the last instant in a window, for which its watermark counts. */
private[streamjoin] object LastInstant {
  def unapply(expression: Expression): Option[Attribute] = expression match {
    case PreciseTimestampConversion(
          Subtract(
            PreciseTimestampConversion(GetStructField(window: Attribute, 1, _), _, _),
            Literal(1L, _),
            _
          ),
          _,
          TimestampType
        ) if WatermarkLineage.isWindow(window) =>
      Some(window)
    case _ => None
  }
}

private[streamjoin] object WatermarkLineage {

  /** For the columns of an optimized plan, the whole of it. */
  def within(query: LogicalPlan): WatermarkLineage = {
    val marks = query.collect { case mark: EventTimeWatermark => mark }
    new WatermarkLineage(
      marks
        .zip(Origin.number(marks.map(_.nodeId)))
        .map { case (mark, origin) => (mark.nodeId, mark.eventTime.exprId) -> origin }
        .toMap
    )
  }

  /** Operators of Spark's that hold rows back by its own watermark. Deduplication passes rows on as they come. */
  def isStateful(plan: LogicalPlan): Boolean = plan.isStreaming && (plan match {
    case _: Aggregate | _: FlatMapGroupsWithState | _: TransformWithState => true
    case _: FlatMapGroupsInPandasWithState | _: TransformWithStateInPySpark => true
    case join: Join => join.left.isStreaming && join.right.isStreaming
    case _ => false
  })

  /** The mark that a second one above would take off: on the same rows, with no operator of state between. */
  def markBelow(plan: LogicalPlan): Option[EventTimeWatermark] = plan match {
    case mark: EventTimeWatermark => Some(mark)
    case stateful if isStateful(stateful) => None
    case other => other.children.flatMap(markBelow).headOption
  }

  /** An event-time column as Spark knows it. */
  def isMarked(attribute: Attribute): Boolean = attribute.metadata.contains(EventTimeWatermark.delayKey)

  /** An event-time column is a timestamp, or a window over one. */
  def isTime(attribute: Attribute): Boolean = attribute.dataType == TimestampType || isWindow(attribute)

  /** A tumbling or sliding window, as `window(...)` makes it. */
  def isWindow(attribute: Attribute): Boolean = attribute.dataType match {
    case StructType(Array(start, end)) =>
      start.name == "start" && end.name == "end" && Seq(start, end).forall(_.dataType == TimestampType)
    case _ => false
  }
}
