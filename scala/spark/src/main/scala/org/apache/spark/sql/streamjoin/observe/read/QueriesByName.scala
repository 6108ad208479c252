package org.apache.spark.sql.streamjoin.observe.read

import java.util.UUID
import java.util.concurrent.TimeoutException

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.sql.execution.streaming.runtime.{
  StreamExecution,
  StreamMetadata,
  StreamingQueryWrapper
}
import org.apache.spark.sql.streaming.StreamingQuery
import org.apache.spark.sql.streamjoin.base.{LeftBySessions, QueryOwner, StreamJoinConf}
import org.apache.spark.sql.{Row, SparkSession}

/**
 * Finds queries by id or name, for functions in SQL: the queries of the asking session, and those
 * of others only if the server shares them.
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
        // The session's own query comes first, even if it has stopped.
        def hasOwn = checkpointOf(session, asker.copy(seesAll = false), idOrName).isDefined
        named.headOption.filter(_ => asker.seesAll && !hasOwn)
      }
    }
  }

  def execution(query: StreamingQuery): StreamExecution = query match {
    case wrapper: StreamingQueryWrapper => wrapper.streamingQuery
    case other => other.asInstanceOf[StreamExecution]
  }

  /** For a running query, or for the one that this driver last started under the id or the name. */
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

  /** The existing queries, for an error. */
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

/**
 * Checkpoints of the queries that this driver has started, so that a stopped query can be found by
 * its id or name; Spark itself forgets it. Only the paths of the newest ones are kept.
 */
private[streamjoin] object StartedQueries {
  final private case class Started(checkpoint: String, name: Option[String])

  private val started = new LeftBySessions[Started](ofSession = 1000, ofAll = 10000)

  /**
   * @param owner
   *   id of the session that starts the query
   * @param name
   *   the query's name, if it has one
   */
  def remember(owner: String, checkpoint: String, name: Option[String]): Unit =
    started.put(owner)(_.checkpoint == checkpoint)(_ => Started(checkpoint, name))

  /**
   * The checkpoint of the query that was started last under an id or a name. The id is in the
   * checkpoint; a temporary one is deleted when its query stops.
   */
  def checkpointOf(asker: QueryOwner, idOrName: String, hadoopConf: Configuration): Option[Path] =
    started
      .first(asker)(query => query.name.contains(idOrName) || idOf(query, hadoopConf).contains(idOrName))
      .map(query => new Path(query.checkpoint))

  private def idOf(query: Started, hadoopConf: Configuration): Option[String] =
    StreamMetadata.read(new Path(query.checkpoint, "metadata"), hadoopConf).map(_.id)
}

/**
 * The last result of `sj.explain_analyze` for queries that have stopped in this driver, limited to
 * the most recent ones.
 */
private[streamjoin] object StoppedQueries {
  final private case class Stopped(id: UUID, name: Option[String], rows: Seq[Row], withSkew: Seq[Row])

  private val stopped = new LeftBySessions[Stopped](ofSession = 20, ofAll = 200)

  /**
   * @param owner
   *   id of the session that started the query
   * @param figures
   *   none if it has no operator that keeps rows, or has had no batch
   * @param now
   *   in milliseconds
   */
  def add(owner: String, id: UUID, name: Option[String], figures: Option[QueryFigures], now: Long): Unit = {
    def rows(skew: Boolean) = figures.toSeq.flatMap(ExplainAnalyze.rows(_, skew, now))
    val query = Stopped(id, name, rows(skew = false), rows(skew = true))
    stopped.put(owner)(_.id == id)(_ => query)
  }

  /** The rows of `sj.explain_analyze`. */
  def rows(session: SparkSession, idOrName: String, skew: Boolean): Option[Seq[Row]] = {
    // Spark announces a stopped query a moment later.
    try session.sparkContext.listenerBus.waitUntilEmpty(Patience)
    catch { case _: TimeoutException => }
    stopped
      .first(QueryOwner.of(session))(query => query.id.toString == idOrName || query.name.contains(idOrName))
      .map(query => if (skew) query.withSkew else query.rows)
  }

  /** In milliseconds. */
  private val Patience = 5000L
}
