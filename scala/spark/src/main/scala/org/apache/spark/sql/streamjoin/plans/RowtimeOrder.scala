package org.apache.spark.sql.streamjoin.plans

import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, UnaryNode}

/**
 * The rows of a stream in ascending order of a time, as a query is written; what runs in its place
 * keeps each row until no earlier one can come.
 *
 * @param time
 *   the rowtime, a column of the child
 * @param ofJoin
 *   the child is a window join: a row waits until the watermarks of both of its inputs have reached
 *   the row's rowtime
 * @param center
 *   of a window join, where the other input has a window that follows: the event-time column that
 *   is the rowtime. As long as the join keeps a row, a match of it may come with the row's time.
 * @param times
 *   the event-time columns of the inputs of a window join, as far as they are in its output
 * @param behind
 *   by how many microseconds at most each of them is behind the rowtime of its row
 * @param span
 *   of a window join: how far apart the times of a pair may be, in microseconds
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
