package org.apache.spark.sql.streamjoin.joins.table

import org.apache.spark.sql.catalyst.plans.logical.{Join, LogicalPlan}

/**
 * The sides of a join of a stream with an input that is not streaming.
 *
 * @param other
 *   the side with the table
 * @param isLeft
 *   whether the stream is the left side
 */
final private[streamjoin] case class StreamSide(stream: LogicalPlan, other: LogicalPlan, isLeft: Boolean)

private[streamjoin] object StreamSide {

  /** None if both sides are streams, or neither is. */
  def of(join: Join): Option[StreamSide] = (join.left.isStreaming, join.right.isStreaming) match {
    case (true, false) => Some(StreamSide(join.left, join.right, isLeft = true))
    case (false, true) => Some(StreamSide(join.right, join.left, isLeft = false))
    case _ => None
  }
}
