package org.apache.spark.sql.streamjoin.operators.order

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.plans.physical.ShufflePartitionIdPassThrough
import org.apache.spark.sql.execution.exchange.ShuffleExchangeExec
import org.apache.spark.sql.execution.{SortExec, SparkPlan}
import org.apache.spark.sql.streamjoin.analysis.Recognizer
import org.apache.spark.sql.streamjoin.operators.{BatchBinding, OperatorKind, WholeRow}

/** Rows in the order of a time: recognised by [[RecognizeOrder]], planned here. */
private[streamjoin] object OrderKind extends OperatorKind {

  override def recognizer: Recognizer = RecognizeOrder

  override def plan(
      node: LogicalPlan,
      binding: Option[BatchBinding],
      planLater: LogicalPlan => SparkPlan
  ): Option[SparkPlan] = node match {
    case order: StreamOrder =>
      Some(sorted(StreamOrderExec(order.times, order.plan, binding, planLater(order.child))))
    case _ => None
  }

  /** The rows that leave in this batch, a part of the time in each task, one after the other. */
  private def sorted(exec: StreamOrderExec): SparkPlan = {
    val (time, ranges) = (exec.times.head, exec.ranges)
    val partitioning =
      ShufflePartitionIdPassThrough(DirectShufflePartitionID(PartOfTime(time, ranges)), ranges.parts)
    // Rows with one time in an order of their own, so that a batch that is done again has the same.
    val others = XxHash64(WholeRow.hashed(exec.output), 42L)
    SortExec(
      Seq(SortOrder(time, Ascending), SortOrder(others, Ascending)),
      global = false,
      ShuffleExchangeExec(partitioning, exec)
    )
  }
}
