package org.apache.spark.sql.streamjoin.operators

import java.util.UUID

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.sql.execution.streaming.runtime.{
  IncrementalExecution,
  MicroBatchExecution,
  MicroBatchExecutionContext,
  StreamExecution
}

/** The batch of a streaming query that is being planned. */
final private[streamjoin] case class PlannedBatch(
    query: MicroBatchExecution,
    context: MicroBatchExecutionContext
) {
  val execution: IncrementalExecution = context.executionPlan
}

private[streamjoin] object PlannedBatch {

  /**
   * That of this thread, or none where a plan is only being explained; also where that is done in
   * `foreachBatch`, by another session than that of the batch.
   */
  def current(session: SparkSession): Option[PlannedBatch] =
    for {
      id <- Option(session.sparkContext.getLocalProperty(StreamExecution.QUERY_ID_KEY))
      classic = session.asInstanceOf[ClassicSession]
      query <- classic.sharedState.activeStreamingQueries.get(UUID.fromString(id)) match {
        case micro: MicroBatchExecution => Some(micro)
        case _ => None
      }
      context <- query.getLatestExecutionContext() match {
        case batch: MicroBatchExecutionContext
            if batch.executionPlan != null && (batch.executionPlan.sparkSession eq classic) =>
          Some(batch)
        case _ => None
      }
    } yield PlannedBatch(query, context)
}
