package org.apache.spark.sql.streamjoin.exec

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.sql.execution.streaming.runtime.{StreamExecution, StreamingQueryWrapper}
import org.apache.spark.sql.streaming.StreamingQuery

/** Queries by id or name, as functions in SQL name them. */
private[streamjoin] object QueriesByName {

  def running(session: SparkSession, idOrName: String): Option[StreamingQuery] =
    session.streams.active.find(query => query.id.toString == idOrName || query.name == idOrName)

  def execution(query: StreamingQuery): StreamExecution = query match {
    case wrapper: StreamingQueryWrapper => wrapper.streamingQuery
    case other => other.asInstanceOf[StreamExecution]
  }

  /** Of one that runs, or was started last from this driver under the id or the name. */
  def checkpoint(session: SparkSession, idOrName: String): Option[Path] =
    running(session, idOrName)
      .map(query => new Path(execution(query).resolvedCheckpointRoot))
      .orElse(
        StartedQueries
          .checkpointOf(idOrName, session.asInstanceOf[ClassicSession].sessionState.newHadoopConf())
      )

  /** For an error: which there are. */
  def known(session: SparkSession): String = {
    val running = session.streams.active.map(query => Option(query.name).getOrElse(query.id.toString))
    if (running.isEmpty) "none runs" else s"these run: ${running.mkString(", ")}"
  }
}
