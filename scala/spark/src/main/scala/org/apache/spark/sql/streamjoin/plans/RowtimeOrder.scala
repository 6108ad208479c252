package org.apache.spark.sql.streamjoin.plans

import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, UnaryNode}

/**
 * Emits the rows of a stream in ascending order of a time, as a query is written. The operator that
 * replaces it buffers each row until no earlier one can come.
 *
 * @param time
 *   rowtime column of the child
 * @param ofJoin
 *   whether the child is a window join; a row then waits until the watermarks of both inputs of the
 *   join have reached its rowtime
 * @param center
 *   for a window join whose other input has a following window: the event-time column that is the
 *   rowtime. While the join buffers a row, it may still emit a match with that row's time.
 * @param times
 *   event-time columns of a window join's inputs, as far as they are in its output
 * @param behind
 *   largest distance of each of `times` behind the rowtime of its row, in microseconds
 * @param span
 *   for a window join: largest distance between the times of a pair, in microseconds
 */
final private[streamjoin] case class RowtimeOrder(
    time: Attribute,
    ofJoin: Boolean,
    center: Option[Attribute],
    times: Seq[Attribute],
    behind: Seq[Long],
    span: Long,
    child: LogicalPlan
) extends UnaryNode {
  override def output: Seq[Attribute] = child.output

  override protected def withNewChildInternal(newChild: LogicalPlan): RowtimeOrder = copy(child = newChild)
}
