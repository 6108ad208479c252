package org.apache.spark.sql.streamjoin.joins.order

import org.apache.spark.sql.catalyst.expressions.{Left => _, Right => _, _}
import org.apache.spark.sql.catalyst.plans.logical.{Join, LogicalPlan, Project}
import org.apache.spark.sql.catalyst.plans.{LeftAnti, LeftSemi}
import org.apache.spark.sql.catalyst.util._
import org.apache.spark.sql.streamjoin.time.{EventTime, TimeDistance}
import org.apache.spark.sql.types.MetadataBuilder

import streamjoin.core.{JoinWindows, Side}

/**
 * Rewrites a join with windows over one or both inputs, whose output is in rowtime order, as a
 * plain join with time bounds. [[streamjoin.core.JoinWindows]] has the rules, which need windows of
 * the same length for all rows.
 */
private[streamjoin] object WindowJoinBuilder {

  /** Name of the column that the output has in addition to those of the inputs. */
  val Rowtime = "rowtime"

  /**
   * If an input is itself a window join, its rowtime is hidden, as Spark hides columns of `USING`:
   * `rowtime` is the new one, and `a.rowtime` remains that of the input.
   *
   * @param join
   *   the resolved join, to whose condition the windows are added
   * @param names
   *   for a join on names: the projection that Spark puts above it, so that each name is output
   *   once
   * @param windows
   *   one window or two
   * @param times
   *   event-time column of each input
   */
  def of(
      join: Join,
      names: Option[Project],
      windows: JoinWindows,
      times: Map[Side, Attribute]
  ): LogicalPlan = {
    val order = new WindowJoinBuilder(join, windows, times).plan
    val list = names.fold[Seq[NamedExpression]](order.output)(_.projectList :+ order.time)
    val (replaced, kept) =
      list.partition(column => isRowtime(column) && column.exprId != order.time.exprId)
    val project = Project(kept, order)
    project.setTagValue(
      Project.hiddenOutputTag,
      names.getOrElse(order).metadataOutput ++ replaced.map(_.toAttribute.markAsQualifiedAccessOnly())
    )
    project
  }

  private def isRowtime(column: NamedExpression): Boolean =
    column.name.equalsIgnoreCase(Rowtime) && column.metadata.contains(EventTime.RowtimeKey)
}

final private class WindowJoinBuilder(join: Join, windows: JoinWindows, times: Map[Side, Attribute]) {
  private val (leftTime, rightTime) = (times(Side.Left), times(Side.Right))

  def plan: RowtimeOrder = {
    val bounds = And(
      GreaterThanOrEqual(rightTime, TimeDistance.exactlyLater(leftTime, windows.least)),
      LessThanOrEqual(rightTime, TimeDistance.exactlyLater(leftTime, windows.greatest))
    )
    val bounded = join.copy(condition = Some(join.condition.fold[Expression](bounds)(And(_, bounds))))
    val mark = new MetadataBuilder()
      .withMetadata(times(windows.center.getOrElse(Side.Left)).metadata)
      .putBoolean(EventTime.RowtimeKey, true)
      .build()
    val emitted = Side.both.filter(side => bounded.outputSet.contains(times(side)))
    val rowtime = Alias(rowtimeOf(bounded), WindowJoinBuilder.Rowtime)(explicitMetadata = Some(mark))
    RowtimeOrder(
      rowtime.toAttribute,
      Some(windows),
      // A left semi or anti join does not emit right rows, so its output does not wait for them.
      windows.waitsForKept.map(times).filter(bounded.outputSet.contains),
      emitted.map(times),
      emitted.map(windows.behind),
      windows.greatest - windows.least,
      Project(bounded.output :+ rowtime, bounded)
    )
  }

  private def rowtimeOf(join: Join): Expression = {
    // As in the output, in which an outer join makes them nullable.
    def out(side: Side): Attribute =
      join.output.find(_.exprId == times(side).exprId).getOrElse(times(side))
    val (left, right) = (out(Side.Left), out(Side.Right))
    join.joinType match {
      case LeftSemi | LeftAnti => alone(Side.Left, left)
      case _ =>
        val pair = windows.center.fold[Expression](Greatest(Seq(left, right)))(out)
        If(
          IsNull(right),
          alone(Side.Left, left),
          If(IsNull(left), alone(Side.Right, right), pair)
        )
    }
  }

  /** The rowtime of an unmatched row. */
  private def alone(side: Side, time: Attribute): Expression =
    TimeDistance.exactlyLater(time, windows.behind(side))
}
