package org.apache.spark.sql.streamjoin.observe.publish.page

import java.util.UUID

import scala.collection.immutable.ListMap

/**
 * The figures of the last batches of some queries, as lines of JSON.
 *
 * @param keepsSeries
 *   whether there is also a point for each batch before them
 */
final private[streamjoin] class RecentBatches(keepsSeries: Boolean = false) {
  import RecentBatches._

  /** The last one had a batch last. */
  private var queries = ListMap.empty[UUID, Recent]

  def add(id: UUID, name: Option[String], line: String): Unit = synchronized {
    val before = queries.get(id)
    val lines = before.fold(Vector.empty[String])(_.lines) :+ line
    val series = before.fold(new BatchSeries)(_.series)
    if (keepsSeries) series.add(BatchSeries.parse(line))
    queries = (queries - id + (id -> Recent(name, lines.takeRight(Batches), series))).takeRight(Queries)
  }

  /** What was stored of a query: its last batches, and its series. */
  def restore(id: UUID, name: Option[String], lines: Seq[String], points: Seq[String]): Unit = synchronized {
    val series = new BatchSeries
    points.foreach(point => series.add(BatchSeries.parse(point)))
    queries = (queries - id + (id -> Recent(name, lines.toVector, series))).takeRight(Queries)
  }

  /** The oldest batch first. */
  def of(idOrName: String): Option[Seq[String]] = synchronized(found(idOrName).map(_.lines))

  /** A point for each batch, or for some of them, as [[BatchSeries]] says; the oldest first. */
  def series(idOrName: String): Seq[String] = synchronized(found(idOrName).toSeq.flatMap(_.series.lines))

  private def found(idOrName: String): Option[Recent] = queries.toSeq.reverseIterator.collectFirst {
    case (id, recent) if id.toString == idOrName || recent.name.contains(idOrName) => recent
  }

  /** Each query's lines, and the points of its series. */
  def lines: Seq[(UUID, Option[String], Seq[String], Seq[String])] = synchronized {
    queries.toSeq.map { case (id, recent) => (id, recent.name, recent.lines, recent.series.lines) }
  }

  /** The last batch of each query; the query that had a batch last comes last. */
  def last: Seq[String] = synchronized(queries.values.flatMap(_.lines.lastOption).toSeq)
}

private[streamjoin] object RecentBatches {

  /** As many as Spark keeps of a query's progress, by default. */
  private val Batches = 100

  /** Queries whose figures are kept, the last that had a batch. */
  private val Queries = 20

  final private case class Recent(name: Option[String], lines: Vector[String], series: BatchSeries)
}
