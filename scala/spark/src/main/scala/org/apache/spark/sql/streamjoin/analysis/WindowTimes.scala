package org.apache.spark.sql.streamjoin.analysis

import org.apache.spark.sql.catalyst.expressions.{Left => _, Right => _, _}
import org.apache.spark.sql.catalyst.plans.logical.{Aggregate, Expand, LogicalPlan, Project, Union}
import org.apache.spark.sql.streamjoin.time._

/**
 * A distance between two times of a row, in microseconds.
 *
 * @param least
 *   may be negative
 */
final private[streamjoin] case class TimeRange(least: Long, most: Long)

/**
 * Traces windows of fixed length through a plan: how far their fields are from their last instants,
 * and columns that come from one window from each other. Pure: plans in, data out.
 *
 * {{{
 *   window(t, '10 seconds')     start   <--- 10 s --->  end
 *                                             last instant, to which the watermark applies:
 *                                             a microsecond before the end
 * }}}
 *
 * The end of every window is a microsecond after its last instant. The start of a session window,
 * or of another struct, is at no constant distance.
 */
private[streamjoin] object WindowTimes {

  /** The length of the windows in a column of a plan; in a union, that of any branch. */
  def length(window: Attribute, plan: LogicalPlan): Option[TimeRange] =
    if (window.metadata.contains(SessionWindow.marker)) None
    else
      plan match {
        case Project(list, child) => list.find(_.exprId == window.exprId).flatMap(lengthOf(_, child))
        case aggregate: Aggregate =>
          aggregate.aggregateExpressions
            .find(_.exprId == window.exprId)
            .flatMap(lengthOf(_, aggregate.child))
        // Sliding windows: one projection for each window of a row.
        case Expand(projections, output, child) =>
          output.indexWhere(_.exprId == window.exprId) match {
            case -1 => None
            case at =>
              all(projections.map(_(at) match {
                case column: Attribute => length(column, child)
                case made =>
                  FixedWindow
                    .length(Alias(made, window.name)(explicitMetadata = Some(window.metadata)))
                    .map(micros => TimeRange(micros, micros))
              }))
          }
        case union: Union =>
          val at = union.output.indexWhere(_.exprId == window.exprId)
          all(union.children.map(child => length(child.output(at), child)))
        case other =>
          other.children.find(_.output.exists(_.exprId == window.exprId)).flatMap(length(window, _))
      }

  private def lengthOf(made: NamedExpression, child: LogicalPlan): Option[TimeRange] = made match {
    case column: Attribute => length(column, child)
    case Alias(column: Attribute, _) => length(column, child)
    case other => FixedWindow.length(other).map(micros => TimeRange(micros, micros))
  }

  /** A time over the columns of a plan as a sum, in which a window stands for its last instant. */
  def sum(time: Expression, plan: LogicalPlan): LinearTime.Result = time match {
    case window: Attribute if EventTime.isWindow(window) => LinearTime.of(ApartTime(window, 0L, 0L))
    case other => LinearTime.of(inFields(other, length(_, plan)))
  }

  /**
   * An expression in which the fields of windows are times.
   *
   * @param length
   *   of the windows in a column, if it is known
   */
  def inFields(expression: Expression, length: Attribute => Option[TimeRange]): Expression =
    expression.transformDown {
      case LastInstant(window) => ApartTime(window, 0L, 0L)
      case field @ WindowField(window, isStart) =>
        if (!isStart) ApartTime(window, 1L, 1L)
        else length(window).fold(field)(of => ApartTime(window, 1L - of.most, 1L - of.least))
    }

  /**
   * How far a time of each row is from another one, if both come from one column below: then either
   * both are null or none.
   */
  def distance(time: Attribute, from: Attribute, plan: LogicalPlan): Option[TimeRange] =
    if (time.exprId == from.exprId) Some(TimeRange(0L, 0L))
    else
      plan match {
        case Project(list, child) => between(time, from, list, child)
        case aggregate: Aggregate => between(time, from, aggregate.aggregateExpressions, aggregate.child)
        case union: Union =>
          def at(column: Attribute) = union.output.indexWhere(_.exprId == column.exprId)
          all(union.children.map(child => distance(child.output(at(time)), child.output(at(from)), child)))
        case other =>
          other.children
            .find(child => Seq(time, from).forall(column => child.output.exists(_.exprId == column.exprId)))
            .flatMap(distance(time, from, _))
      }

  private def between(
      time: Attribute,
      from: Attribute,
      list: Seq[NamedExpression],
      child: LogicalPlan
  ): Option[TimeRange] = for {
    (base, own) <- based(time, list, child)
    (other, its) <- based(from, list, child)
    below <- distance(base, other, child)
  } yield TimeRange(below.least + own.least - its.most, below.most + own.most - its.least)

  /** A column of a projection as one below plus a distance. */
  private def based(
      column: Attribute,
      list: Seq[NamedExpression],
      child: LogicalPlan
  ): Option[(Attribute, TimeRange)] =
    list
      .find(_.exprId == column.exprId)
      .flatMap {
        case Alias(made, _) => sum(made, child).toOption
        case below: Attribute => sum(below, child).toOption
        case _ => None
      }
      .collect { case LinearTime(Seq(base), Seq(), constant, below, above) =>
        base -> TimeRange(constant - below, constant + above)
      }

  private def all(ranges: Seq[Option[TimeRange]]): Option[TimeRange] =
    Option.when(ranges.nonEmpty && ranges.forall(_.isDefined)) {
      TimeRange(ranges.flatten.map(_.least).min, ranges.flatten.map(_.most).max)
    }
}
