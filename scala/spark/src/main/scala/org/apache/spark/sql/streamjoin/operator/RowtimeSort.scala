package org.apache.spark.sql.streamjoin.operator

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.physical.ShufflePartitionIdPassThrough
import org.apache.spark.sql.execution.exchange.ShuffleExchangeExec
import org.apache.spark.sql.execution.{SortExec, SparkPlan}

/**
 * Sorts the rows that a batch emits. Each task sorts a range of time; later tasks have later
 * ranges.
 */
private[streamjoin] object RowtimeSort {
  def apply(exec: SparkPlan, time: Attribute, ranges: TimeRanges): SparkPlan = {
    val partitioning =
      ShufflePartitionIdPassThrough(DirectShufflePartitionID(PartOfTime(time, ranges)), ranges.parts)
    // Rows of equal time are ordered by hash, so that a batch that runs again has the same order.
    val others = XxHash64(WholeRow.hashed(exec.output), 42L)
    SortExec(
      Seq(SortOrder(time, Ascending), SortOrder(others, Ascending)),
      global = false,
      ShuffleExchangeExec(partitioning, exec)
    )
  }
}
