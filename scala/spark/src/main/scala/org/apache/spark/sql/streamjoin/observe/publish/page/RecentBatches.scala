package org.apache.spark.sql.streamjoin.observe.publish.page

import java.util.UUID

import scala.collection.immutable.ListMap

/**
 * The figures of the last batches of some queries, as lines of JSON.
 *
 * @param keepsSeries
 *   whether to also keep a point for each earlier batch
 */
final private[streamjoin] class RecentBatches(keepsSeries: Boolean = false) {
  import RecentBatches._

  /** The query with the most recent batch is last. */
  private var queries = ListMap.empty[UUID, Recent]

  def add(id: UUID, name: Option[String], line: String): Unit = synchronized {
    val before = queries.get(id)
    val lines = before.fold(Vector.empty[String])(_.lines) :+ line
    val series = before.fold(new BatchSeries)(_.series)
    if (keepsSeries) series.add(BatchSeries.parse(line))
    queries = (queries - id + (id -> Recent(name, lines.takeRight(Batches), series))).takeRight(Queries)
  }

  /** Restores the stored data of a query: its last batches and its series. */
  def restore(id: UUID, name: Option[String], lines: Seq[String], points: Seq[String]): Unit = synchronized {
    val series = new BatchSeries
    points.foreach(point => series.add(BatchSeries.parse(point)))
    queries = (queries - id + (id -> Recent(name, lines.toVector, series))).takeRight(Queries)
  }

  /** The oldest batch first. */
  def of(idOrName: String): Option[Seq[String]] = synchronized(found(idOrName).map(_.lines))

  /** One point per batch, or per group of batches (see [[BatchSeries]]); the oldest first. */
  def series(idOrName: String): Seq[String] = synchronized(found(idOrName).toSeq.flatMap(_.series.lines))

  private def found(idOrName: String): Option[Recent] = queries.toSeq.reverseIterator.collectFirst {
    case (id, recent) if id.toString == idOrName || recent.name.contains(idOrName) => recent
  }

  /** The lines of each query, and the points of its series. */
  def lines: Seq[(UUID, Option[String], Seq[String], Seq[String])] = synchronized {
    queries.toSeq.map { case (id, recent) => (id, recent.name, recent.lines, recent.series.lines) }
  }

  /** The last batch of each query; the query with the most recent batch is last. */
  def last: Seq[String] = synchronized(queries.values.flatMap(_.lines.lastOption).toSeq)
}

private[streamjoin] object RecentBatches {

  /** The number of progress reports that Spark keeps per query by default. */
  private val Batches = 100

  /** The number of queries whose figures are kept: those with the most recent batches. */
  private val Queries = 20

  final private case class Recent(name: Option[String], lines: Vector[String], series: BatchSeries)
}
