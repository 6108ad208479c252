package org.apache.spark.sql.streamjoin.monitor

import java.util.UUID

import scala.collection.immutable.ListMap

import org.apache.spark.sql.streamjoin.base.TableFunction
import org.apache.spark.sql.types.{StringType, StructType}

/**
 * The figures of the last batches of this driver's queries, as lines of JSON, for who looks at a
 * query that runs or has just stopped.
 */
private[streamjoin] object RecentFigures {

  val Function: TableFunction =
    TableFunction("sj_figures", "SELECT * FROM sj_figures('the id or the name of a query')")
  val Schema: StructType = new StructType().add("figures", StringType, nullable = false)

  /** As many as Spark keeps of a query's progress, by default. */
  private val Batches = 100

  /** Queries whose figures are kept, the last that had a batch. */
  private val Queries = 20

  final private case class Recent(name: Option[String], lines: Vector[String])

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

  /** The last batch of each query, by its id. */
  def last: Seq[(UUID, String)] = synchronized {
    queries.toSeq.flatMap { case (id, recent) => recent.lines.lastOption.map(id -> _) }
  }
}
