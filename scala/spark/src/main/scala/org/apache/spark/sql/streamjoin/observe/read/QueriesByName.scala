package org.apache.spark.sql.streamjoin.observe.read

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.sql.execution.streaming.runtime.{StreamExecution, StreamingQueryWrapper}
import org.apache.spark.sql.streaming.StreamingQuery
import org.apache.spark.sql.streamjoin.base.{QueryOwner, StreamJoinConf}

/**
 * Queries by id or name, as functions in SQL name them: of the session that asks, and of others
 * only where the server shares them.
 */
private[streamjoin] object QueriesByName {

  def running(session: SparkSession, idOrName: String): Option[StreamExecution] = {
    val named =
      QueryOwner.running(session).filter(query => query.id.toString == idOrName || query.name == idOrName)
    if (named.isEmpty) None
    else {
      val asker = QueryOwner.of(session)
      def isOwn(query: StreamExecution) = QueryOwner.id(query.sparkSession) == asker.id
      named.find(isOwn).orElse {
        // Its own comes first, also one that has stopped.
        def hasOwn = checkpointOf(session, asker.copy(seesAll = false), idOrName).isDefined
        named.headOption.filter(_ => asker.seesAll && !hasOwn)
      }
    }
  }

  def execution(query: StreamingQuery): StreamExecution = query match {
    case wrapper: StreamingQueryWrapper => wrapper.streamingQuery
    case other => other.asInstanceOf[StreamExecution]
  }

  /** Of one that runs, or was started last from this driver under the id or the name. */
  def checkpoint(session: SparkSession, idOrName: String): Option[Path] =
    running(session, idOrName)
      .map(query => new Path(query.resolvedCheckpointRoot))
      .orElse(checkpointOf(session, QueryOwner.of(session), idOrName))

  private def checkpointOf(session: SparkSession, asker: QueryOwner, idOrName: String): Option[Path] =
    StartedQueries.checkpointOf(
      asker,
      idOrName,
      session.asInstanceOf[ClassicSession].sessionState.newHadoopConf()
    )

  /** For an error: which there are. */
  def known(session: SparkSession): String = {
    val asker = QueryOwner.of(session)
    val running = QueryOwner
      .running(session)
      .filter(query => asker.mayFind(QueryOwner.id(query.sparkSession)))
      .map(query => Option(query.name).getOrElse(query.id.toString))
      .sorted
    val found = if (running.isEmpty) "none runs" else s"these run: ${running.mkString(", ")}"
    if (asker.seesAll) found
    else s"$found in this session, and ${StreamJoinConf.ShareQueries.key} hides those of other sessions"
  }
}
