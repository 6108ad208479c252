package org.apache.spark.sql.streamjoin.observe.read

import java.util.UUID
import java.util.concurrent.TimeoutException

import org.apache.spark.sql.streamjoin.base.{LeftBySessions, QueryOwner}
import org.apache.spark.sql.{Row, SparkSession}

/**
 * What `sj.explain_analyze` said last of the queries that have stopped in this driver, of the last
 * ones only.
 */
private[streamjoin] object StoppedQueries {
  final private case class Stopped(id: UUID, name: Option[String], rows: Seq[Row], withSkew: Seq[Row])

  private val stopped = new LeftBySessions[Stopped](ofSession = 20, ofAll = 200)

  /**
   * @param owner
   *   id of the session that started the query
   * @param now
   *   in milliseconds
   */
  def add(owner: String, id: UUID, name: Option[String], figures: QueryFigures, now: Long): Unit = {
    val query = Stopped(
      id,
      name,
      ExplainAnalyze.rows(figures, skew = false, now),
      ExplainAnalyze.rows(figures, skew = true, now)
    )
    stopped.put(owner)(_.id == id)(_ => query)
  }

  /** The rows of `sj.explain_analyze`. */
  def rows(session: SparkSession, idOrName: String, skew: Boolean): Option[Seq[Row]] = {
    // A query that has just stopped is announced a moment later.
    try session.sparkContext.listenerBus.waitUntilEmpty(Patience)
    catch { case _: TimeoutException => }
    stopped
      .first(QueryOwner.of(session))(query => query.id.toString == idOrName || query.name.contains(idOrName))
      .map(query => if (skew) query.withSkew else query.rows)
  }

  /** In milliseconds. */
  private val Patience = 5000L
}
