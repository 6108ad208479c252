package org.apache.spark.sql.streamjoin.base

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution

/**
 * A session that looks for queries. It finds the queries that it has started, and those of other
 * sessions only if the server shares them.
 *
 * @param id
 *   of the session
 */
final private[streamjoin] case class QueryOwner(id: String, seesAll: Boolean) {

  def mayFind(owner: String): Boolean = seesAll || owner == id
}

private[streamjoin] object QueryOwner {
  def of(session: SparkSession): QueryOwner = QueryOwner(id(session), SharedServer.sharesQueries(session))

  /**
   * The session that owns the queries started in a session. Usually this is the session itself. For
   * the clone in which a query runs its batches and calls `foreachBatch`, it is the session that
   * started that query. A session that was created from another one is independent of it.
   */
  def id(session: SparkSession): String = {
    val classic = session.asInstanceOf[ClassicSession]
    running(classic)
      .find(query => query.sparkSessionForStream.sessionUUID == classic.sessionUUID)
      .fold(classic.sessionUUID)(query => id(query.sparkSession))
  }

  /** The queries of all sessions. */
  def running(session: SparkSession): Seq[StreamExecution] =
    session.asInstanceOf[ClassicSession].sharedState.activeStreamingQueries.values.asScala.toSeq
}
