package org.apache.spark.sql.streamjoin.monitor.page

import java.util.UUID

import scala.collection.immutable.ListMap

/** The figures of the last batches of some queries, as lines of JSON. */
final private[streamjoin] class RecentBatches {
  import RecentBatches._

  /** The last one had a batch last. */
  private var queries = ListMap.empty[UUID, Recent]

  def add(id: UUID, name: Option[String], line: String): Unit = synchronized {
    val lines = queries.get(id).fold(Vector.empty[String])(_.lines) :+ line
    queries = (queries - id + (id -> Recent(name, lines.takeRight(Batches)))).takeRight(Queries)
  }

  /** The oldest batch first. */
  def of(idOrName: String): Option[Seq[String]] = synchronized {
    queries.toSeq.reverseIterator
      .collectFirst {
        case (id, recent) if id.toString == idOrName || recent.name.contains(idOrName) => recent.lines
      }
  }

  /** Each query's lines. */
  def lines: Seq[(UUID, Option[String], Seq[String])] = synchronized {
    queries.toSeq.map { case (id, recent) => (id, recent.name, recent.lines) }
  }

  /** The last batch of each query; the query that had a batch last comes last. */
  def last: Seq[String] = synchronized(queries.values.flatMap(_.lines.lastOption).toSeq)
}

private[streamjoin] object RecentBatches {

  /** As many as Spark keeps of a query's progress, by default. */
  private val Batches = 100

  /** Queries whose figures are kept, the last that had a batch. */
  private val Queries = 20

  final private case class Recent(name: Option[String], lines: Vector[String])
}
