package org.apache.spark.sql.streamjoin.base

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution

/**
 * A session that asks for queries. It finds those that it has started, and those of other sessions
 * only where the server shares them.
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
   * The session that owns what a session starts: itself, or, of the clone in which a query runs its
   * batches and calls `foreachBatch`, the session that started that query. A session that was made
   * from another one is another one.
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
