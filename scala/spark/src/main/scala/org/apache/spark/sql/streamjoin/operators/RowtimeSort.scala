package org.apache.spark.sql.streamjoin.operators

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.physical.ShufflePartitionIdPassThrough
import org.apache.spark.sql.execution.exchange.ShuffleExchangeExec
import org.apache.spark.sql.execution.{SortExec, SparkPlan}

/** The rows that leave in a batch, a part of the time in each task, one after the other. */
private[operators] object RowtimeSort {
  def apply(exec: SparkPlan, time: Attribute, ranges: TimeRanges): SparkPlan = {
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
