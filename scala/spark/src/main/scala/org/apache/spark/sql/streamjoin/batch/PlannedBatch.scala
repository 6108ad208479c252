package org.apache.spark.sql.streamjoin.batch

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.execution.streaming.runtime.{
  IncrementalExecution,
  MicroBatchExecution,
  MicroBatchExecutionContext
}
import org.apache.spark.sql.streamjoin.base.RunningQuery

/** The batch of a streaming query that is being planned. */
final private[streamjoin] case class PlannedBatch(
    query: MicroBatchExecution,
    context: MicroBatchExecutionContext
) {
  val execution: IncrementalExecution = context.executionPlan
}

private[streamjoin] object PlannedBatch {

  /**
   * The batch that this thread plans; none if a plan is only explained. This includes a plan that
   * `foreachBatch` explains, in another session than the batch.
   */
  def current(session: SparkSession): Option[PlannedBatch] =
    for {
      query <- RunningQuery.current(session)
      context <- query.getLatestExecutionContext() match {
        case batch: MicroBatchExecutionContext
            if batch.executionPlan != null && (batch.executionPlan.sparkSession eq session) =>
          Some(batch)
        case _ => None
      }
    } yield PlannedBatch(query, context)
}
