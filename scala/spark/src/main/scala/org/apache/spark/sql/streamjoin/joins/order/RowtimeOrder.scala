package org.apache.spark.sql.streamjoin.joins.order

import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeSet, Expression}
import org.apache.spark.sql.catalyst.plans.logical.{Filter, LogicalPlan, Project, UnaryNode}
import org.apache.spark.sql.streamjoin.analysis.NamedColumns
import org.apache.spark.sql.streamjoin.base.StreamJoinErrors
import org.apache.spark.sql.streamjoin.plans.PendingOperator

import streamjoin.core.JoinWindows

/**
 * The logical node, as written in a query, that emits the rows of a stream in ascending order of a
 * time. The operator that replaces it buffers each row until no earlier one can arrive.
 *
 * @param time
 *   rowtime column of the child
 * @param windows
 *   the windows of the child, if it is a window join; a row then waits until the watermarks of both
 *   inputs of the join have reached its rowtime
 * @param center
 *   for a window join whose other input has a following window: the event-time column that is the
 *   rowtime. While the join buffers a row, it may still emit a match with that row's time.
 * @param times
 *   event-time columns of a window join's inputs that are in its output
 * @param maxLagMicros
 *   largest distance of each of `times` behind the rowtime of its row, in microseconds
 * @param span
 *   for a window join: largest distance between the times of a pair, in microseconds
 */
final private[streamjoin] case class RowtimeOrder(
    time: Attribute,
    windows: Option[JoinWindows],
    center: Option[Attribute],
    times: Seq[Attribute],
    maxLagMicros: Seq[Long],
    span: Long,
    child: LogicalPlan
) extends UnaryNode
    with PendingOperator {
  override def output: Seq[Attribute] = child.output

  override protected def withNewChildInternal(newChild: LogicalPlan): RowtimeOrder = copy(child = newChild)

  override def disabled: AnalysisException =
    StreamJoinErrors.analysis("STREAMJOIN_ORDER_DISABLED", "column" -> time.name)

  override def passes(conjunct: Expression): Boolean = conjunct.deterministic

  override def withFilter(condition: Expression): LogicalPlan = copy(child = Filter(condition, child))

  override def without(columns: AttributeSet): Option[LogicalPlan] = {
    val dropped = columns -- references
    Option.when(dropped.nonEmpty)(copy(child = Project(child.output.filterNot(dropped.contains), child)))
  }
}

private[streamjoin] object RowtimeOrder {

  /** The rows of a stream in ascending order of a column. */
  def of(stream: LogicalPlan, time: String): RowtimeOrder = RowtimeOrder(
    new NamedColumns("sj.impose_order").timestamp(stream, time),
    windows = None,
    center = None,
    times = Nil,
    maxLagMicros = Nil,
    span = 0,
    stream
  )
}
