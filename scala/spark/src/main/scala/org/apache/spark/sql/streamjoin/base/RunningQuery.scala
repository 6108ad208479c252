package org.apache.spark.sql.streamjoin.base

import java.util.UUID

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.sql.execution.streaming.runtime.{MicroBatchExecution, StreamExecution}
import org.apache.spark.sql.execution.streaming.{AvailableNowTrigger, OneTimeTrigger}

/** Finds queries that run in this driver. */
private[streamjoin] object RunningQuery {
  def of(session: SparkSession, id: UUID): Option[MicroBatchExecution] = {
    val running: StreamExecution =
      session.asInstanceOf[ClassicSession].sharedState.activeStreamingQueries.get(id)
    running match {
      case micro: MicroBatchExecution => Some(micro)
      case _ => None
    }
  }

  /** Whether a run processes the available data and ends. */
  def endsByItself(query: MicroBatchExecution): Boolean = query.trigger match {
    case AvailableNowTrigger | OneTimeTrigger => true
    case _ => false
  }

  /** The query of this thread. */
  def current: Option[MicroBatchExecution] = SparkSession.getActiveSession.flatMap(current)

  def current(session: SparkSession): Option[MicroBatchExecution] =
    Option(session.sparkContext.getLocalProperty(StreamExecution.QUERY_ID_KEY))
      .flatMap(id => of(session, UUID.fromString(id)))
}
