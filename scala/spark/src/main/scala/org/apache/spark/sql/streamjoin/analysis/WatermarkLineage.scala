package org.apache.spark.sql.streamjoin.analysis

import java.util.UUID

import org.apache.spark.sql.catalyst.expressions.{Left => _, Right => _, _}
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.streamjoin.plans.StatefulNode
import org.apache.spark.sql.streamjoin.time.{EventTime, LastInstant, LinearTime, WindowedTime}
import org.apache.spark.sql.streamjoin.watermark.{ColumnWatermark, WatermarkId}
import org.apache.spark.sql.types.TimestampType

/**
 * Traces a column of an optimized plan to the watermark that it carries. Pure: plans in, data out.
 *
 * @param origins
 *   origins of all marks (`EventTimeWatermark` nodes), by node id and column
 * @param fields
 *   whether the start and the end of a window, as columns, carry the watermark of the window, too
 */
final private[streamjoin] class WatermarkLineage(
    origins: Map[(UUID, ExprId), WatermarkId],
    fields: Boolean = false
) {
  import ColumnWatermark._
  import WatermarkLineage._

  /** The event-time columns of a plan's output that carry a watermark, each once. */
  def columns(plan: LogicalPlan): Seq[(Attribute, ColumnWatermark)] = plan.output
    .filter(EventTime.isTime)
    .distinctBy(_.exprId)
    .flatMap(column => of(column, plan).map(column -> _))

  /**
   * Also gives the starts and the ends of windows a watermark. They do not have one everywhere,
   * because the numbers of watermark keys in a checkpoint, and the layout of its state, would be
   * others.
   */
  def withFields: WatermarkLineage = new WatermarkLineage(origins, fields = true)

  /**
   * The watermark of a column of `plan`'s output, if it carries one. A window's watermark applies
   * to the last instant in it.
   */
  def of(column: Attribute, plan: LogicalPlan): Option[ColumnWatermark] = plan match {
    case mark: EventTimeWatermark =>
      // A second mark replaces the first (EventTimeWatermark.updateEventTimeColumn). Spark accepts
      // a mark on a window but reads no times from it.
      if (mark.eventTime.exprId == column.exprId && column.dataType == TimestampType)
        origins.get((mark.nodeId, column.exprId)).map(Marked)
      else None

    case Project(list, child) =>
      list.find(_.exprId == column.exprId).flatMap {
        case attribute: Attribute => of(attribute, child)
        case alias: Alias if EventTime.isWindow(column) =>
          if (EventTime.isMarked(alias.toAttribute)) ofWindow(column, alias.child, child, plan) else None
        case Alias(LastInstant(window), _) => of(window, child)
        case alias: Alias => ofSum(alias.child, child)
        case _ => None
      }

    case Expand(projections, output, child) if EventTime.isWindow(column) =>
      // Sliding windows: one projection for each window of a row.
      val at = output.indexWhere(_.exprId == column.exprId)
      if (at < 0) None else ofWindow(column, projections.head(at), child, plan)

    case union: Union =>
      val at = union.output.indexWhere(_.exprId == column.exprId)
      val branches = union.children.map(child => of(child.output(at), child))
      if (branches.forall(_.isDefined)) Some(Smallest(branches.flatten)) else None

    case node: StatefulNode => node.outputWatermark(column)

    // Only its own state determines how far back its rows reach.
    case join: Join if isStateful(join) => None

    // The column that Scala's transformWithState declares as the event time of its rows.
    case UpdateEventTimeWatermarkColumn(time, _, child) if time.exprId == column.exprId =>
      Some(Propagated(givenToSpark(child)))

    case stateful if isStateful(stateful) =>
      val propagated = Propagated(stateful.children.flatMap(givenToSpark))
      if (EventTime.isMarked(column) || isLastInstant(column, stateful)) Some(propagated)
      else if (fields) ofField(column, stateful, propagated)
      else None

    case other =>
      other.children.find(_.output.exists(_.exprId == column.exprId)).flatMap(of(column, _))
  }

  /**
   * The watermarks that a stateful Spark operator receives from below
   * (`PropagateWatermarkSimulator`).
   */
  private def givenToSpark(plan: LogicalPlan): Seq[ColumnWatermark] = plan match {
    case node: StatefulNode => node.outputWatermarksForSpark
    case _: EventTimeWatermark => Seq(SparkWide)
    case join: Join if isStateful(join) => Seq(Unknown)
    case stateful if isStateful(stateful) => Seq(Propagated(stateful.children.flatMap(givenToSpark)))
    case other => other.children.flatMap(givenToSpark)
  }

  /**
   * Whether the column is the last instant of a window that the aggregate groups by. Spark marks
   * such a column, but not in every branch of a union.
   */
  private def isLastInstant(column: Attribute, stateful: LogicalPlan): Boolean = stateful match {
    case aggregate: Aggregate =>
      aggregate.aggregateExpressions.exists {
        case alias @ Alias(LastInstant(window), _) =>
          alias.exprId == column.exprId && EventTime.isMarked(window)
        case _ => false
      }
    case _ => false
  }

  /** A field of a window that the aggregate groups by. */
  private def ofField(
      column: Attribute,
      stateful: LogicalPlan,
      propagated: ColumnWatermark
  ): Option[ColumnWatermark] = stateful match {
    case aggregate: Aggregate =>
      def isGrouped(window: Attribute) = EventTime.isMarked(window) && EventTime.isWindow(window) &&
        aggregate.groupingExpressions.exists(_.semanticEquals(window))
      aggregate.aggregateExpressions
        .collectFirst { case alias: Alias if alias.exprId == column.exprId => alias.child }
        .flatMap { made =>
          moved(WindowTimes.sum(made, aggregate.child))(base => Some(propagated).filter(_ => isGrouped(base)))
        }
    case _ => None
  }

  private def ofSum(expression: Expression, child: LogicalPlan): Option[ColumnWatermark] =
    moved(if (fields) WindowTimes.sum(expression, child) else LinearTime.of(expression))(of(_, child))

  /** The watermark of one column plus a constant. */
  private def moved(
      sum: LinearTime.Result
  )(of: Attribute => Option[ColumnWatermark]): Option[ColumnWatermark] =
    sum.toOption.collect { case LinearTime(Seq(base), Seq(), constant, below, above) =>
      val (least, most) = (constant - below, constant + above)
      of(base).map(watermark => if (least == 0 && most == 0) watermark else Shifted(least, watermark, most))
    }.flatten

  /**
   * `TimeWindowing` copies the metadata of the time column to the window, so a marked window has a
   * marked column below it. The last instant of a window is that time or a later one.
   */
  private def ofWindow(
      column: Attribute,
      made: Expression,
      child: LogicalPlan,
      plan: LogicalPlan
  ): Option[ColumnWatermark] = made match {
    case window: Attribute => of(window, child)
    case WindowedTime(time) =>
      moved(WindowTimes.sum(time, child))(of(_, child)).map { watermark =>
        WindowTimes.length(column, plan).fold(watermark)(of => Shifted(0, watermark, of.most - 1))
      }
    case _ => None
  }
}

private[streamjoin] object WatermarkLineage {

  /** The lineage of columns in an optimized plan, which must be the whole query. */
  def within(query: LogicalPlan): WatermarkLineage = {
    val marks = query.collect { case mark: EventTimeWatermark => mark }
    new WatermarkLineage(
      marks
        .zip(WatermarkId.number(marks.map(_.nodeId)))
        .map { case (mark, origin) => (mark.nodeId, mark.eventTime.exprId) -> origin }
        .toMap
    )
  }

  /**
   * Spark operators that hold rows back by Spark's own watermark. Deduplication emits rows as they
   * arrive.
   */
  def isStateful(plan: LogicalPlan): Boolean = plan.isStreaming && (plan match {
    case _: Aggregate | _: FlatMapGroupsWithState | _: TransformWithState => true
    case _: FlatMapGroupsInPandasWithState | _: TransformWithStateInPySpark => true
    case join: Join => join.left.isStreaming && join.right.isStreaming
    case _ => false
  })

  /**
   * The mark that a second one above would replace: on the same rows, with no stateful operator in
   * between.
   */
  def markBelow(plan: LogicalPlan): Option[EventTimeWatermark] = plan match {
    case mark: EventTimeWatermark => Some(mark)
    case stateful if isStateful(stateful) => None
    case other => other.children.flatMap(markBelow).headOption
  }
}
