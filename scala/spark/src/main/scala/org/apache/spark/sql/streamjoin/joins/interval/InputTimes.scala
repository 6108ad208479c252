package org.apache.spark.sql.streamjoin.joins.interval

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.streamjoin.analysis.{TimeRange, WatermarkLineage, WindowTimes}
import org.apache.spark.sql.streamjoin.time.{ApartTime, EventTime, LastInstant, WindowField}
import org.apache.spark.sql.streamjoin.watermark.ColumnWatermark
import org.apache.spark.sql.types.TimestampType

/**
 * The times of an input that bounds can use: columns that carry a watermark, and the starts and
 * ends of windows, each of which is a constant apart from one of these columns.
 *
 * @param marked
 *   the columns, with their watermarks, in the order of the output
 * @param apart
 *   other columns, as times relative to these
 * @param lengths
 *   of the windows in these columns, where it is known
 */
final private[interval] case class InputTimes(
    marked: Seq[(Attribute, ColumnWatermark)],
    apart: Map[ExprId, ApartTime] = Map.empty,
    lengths: Map[ExprId, TimeRange] = Map.empty
) {

  /** Adds a column: relative to one that is known, if it can be. */
  private def and(column: Attribute, watermark: ColumnWatermark, plan: LogicalPlan): InputTimes =
    marked.iterator
      .flatMap { case (known, _) =>
        WindowTimes.distance(column, known, plan).map(of => ApartTime(known, of.least, of.most))
      }
      .nextOption()
      .fold(copy(marked = marked :+ (column -> watermark)))(time =>
        copy(apart = apart.updated(column.exprId, time))
      )
}

private[interval] object InputTimes {

  /** @param used the conditions that use the times */
  def withWindows(plan: LogicalPlan, lineage: WatermarkLineage, used: Seq[Expression]): InputTimes = {
    val known = InputTimes(lineage.columns(plan))
    val references = AttributeSet.fromAttributeSets(used.map(_.references))
    val fields = for {
      column <- plan.output.distinctBy(_.exprId)
      if column.dataType == TimestampType && references.contains(column)
      if !known.marked.exists(_._1.exprId == column.exprId)
      watermark <- lineage.withFields.of(column, plan)
    } yield column -> watermark
    // The end of a window before its start: it is an exact distance from the window's watermark.
    val latestFirst = fields.sortBy { case (column, _) =>
      fields.count { case (other, _) => WindowTimes.distance(other, column, plan).exists(_.least > 0) }
    }
    val all = latestFirst.foldLeft(known) { case (times, (column, watermark)) =>
      times.and(column, watermark, plan)
    }
    all.copy(
      marked = all.marked.sortBy { case (column, _) => plan.output.indexWhere(_.exprId == column.exprId) },
      lengths = all.marked
        .map(_._1)
        .filter(EventTime.isWindow)
        .flatMap(window => WindowTimes.length(window, plan).map(window.exprId -> _))
        .toMap
    )
  }

  /** How conditions over two inputs use these times. */
  def in(both: Seq[InputTimes])(expression: Expression): Expression = {
    val apart = both.flatMap(_.apart).toMap
    val lengths = both.flatMap(_.lengths).toMap
    val windows = both.flatMap(_.marked).map(_._1).filter(EventTime.isWindow).map(_.exprId).toSet
    if (apart.isEmpty && windows.isEmpty) expression
    else
      expression.transformDown {
        case LastInstant(window) if windows(window.exprId) => ApartTime(window, 0L, 0L)
        case field @ WindowField(window, _) if windows(window.exprId) =>
          WindowTimes.inFields(field, of => lengths.get(of.exprId))
        case column: Attribute if apart.contains(column.exprId) => apart(column.exprId)
      }
  }
}
