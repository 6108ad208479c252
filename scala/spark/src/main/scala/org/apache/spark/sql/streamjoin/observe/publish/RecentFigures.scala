package org.apache.spark.sql.streamjoin.observe.publish

import java.util.UUID

import org.apache.spark.SparkContext
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.streamjoin.base.{LeftBySessions, QueryOwner}
import org.apache.spark.sql.streamjoin.monitor.SparkListenerStreamJoinFigures
import org.apache.spark.sql.streamjoin.observe.publish.page.{FiguresTab, RecentBatches}
import org.apache.spark.sql.types.{StringType, StructType}

/**
 * The figures of the last batches of this driver's queries, for queries that are running or have
 * just stopped.
 */
private[streamjoin] object RecentFigures {

  val Schema: StructType = new StructType().add("figures", StringType, nullable = false)

  /** A query's last batches, the newest last. */
  final private case class Recent(id: UUID, name: Option[String], lines: Vector[String])

  /** The number of progress reports that Spark keeps per query by default. */
  private val Batches = 100

  private val recent = new LeftBySessions[Recent](ofSession = 20, ofAll = 100)

  /**
   * For `sj_figures`.
   *
   * @param owner
   *   id of the session that started the query
   */
  def add(owner: String, id: UUID, name: Option[String], line: String): Unit =
    recent.put(owner)(_.id == id) { before =>
      Recent(id, name, (before.fold(Vector.empty[String])(_.lines) :+ line).takeRight(Batches))
    }

  /** The figures of a query that the session may see; the oldest batch first. */
  def of(session: SparkSession, idOrName: String): Option[Seq[String]] = recent
    .first(QueryOwner.of(session))(query => query.id.toString == idOrName || query.name.contains(idOrName))
    .map(_.lines)

  /**
   * For Spark's web page: the figures of the queries that it may show, without values that it must
   * not show.
   */
  val shown: RecentBatches = new RecentBatches(keepsSeries = true)
}

/** Shows the figures of a query's batches on Spark's web page, and writes them to its event log. */
final private[publish] class ShownFigures(context: SparkContext) {

  def add(id: UUID, name: Option[String], line: String): Unit = {
    RecentFigures.shown.add(id, name, line)
    context.listenerBus.post(SparkListenerStreamJoinFigures(line))
    context.ui.foreach(FiguresTab.attach(_, RecentFigures.shown, live = true))
  }
}
