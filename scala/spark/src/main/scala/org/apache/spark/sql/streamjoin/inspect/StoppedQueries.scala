package org.apache.spark.sql.streamjoin.inspect

import java.util.UUID
import java.util.concurrent.TimeoutException

import org.apache.spark.SparkContext
import org.apache.spark.sql.Row

/**
 * What `sj.explain_analyze` said last of the queries that have stopped in this driver, of the last
 * ones only.
 */
private[streamjoin] object StoppedQueries {
  private val Limit = 20

  final private case class Stopped(id: UUID, name: Option[String], rows: Seq[Row], withSkew: Seq[Row])

  /** The newest first. */
  private var stopped = Vector.empty[Stopped]

  /** @param now in milliseconds */
  def add(id: UUID, name: Option[String], figures: QueryFigures, now: Long): Unit = {
    val query = Stopped(
      id,
      name,
      ExplainAnalyze.rows(figures, skew = false, now),
      ExplainAnalyze.rows(figures, skew = true, now)
    )
    synchronized { stopped = (query +: stopped.filterNot(_.id == id)).take(Limit) }
  }

  /** The rows of `sj.explain_analyze`. */
  def rows(context: SparkContext, idOrName: String, skew: Boolean): Option[Seq[Row]] = {
    // A query that has just stopped is announced a moment later.
    try context.listenerBus.waitUntilEmpty(Patience)
    catch { case _: TimeoutException => }
    synchronized(stopped)
      .find(query => query.id.toString == idOrName || query.name.contains(idOrName))
      .map(query => if (skew) query.withSkew else query.rows)
  }

  /** In milliseconds. */
  private val Patience = 5000L
}
