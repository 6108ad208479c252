package streamjoin

import java.util.{List => JList, Map => JMap}

import scala.annotation.varargs
import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.ObjectMapper

import org.apache.spark.sql.streaming.DataStreamWriter
import org.apache.spark.sql.{DataFrame, Row}

/**
 * Keeps the current rows of a stream of changes, as of a [[DeltaJoin]], in a target by key. Each
 * batch counts once.
 *
 * {{{
 * Upsert.intoTable(changes, "shop.orders").key("order_id")
 *   .writeStream.option("checkpointLocation", "...").start()
 * }}}
 */
object Upsert {

  /** A table of a format with `MERGE`, such as Delta Lake or Iceberg. */
  def intoTable(changes: DataFrame, table: String): UpsertWriter =
    new UpsertWriter(changes, Map("table" -> table))

  /**
   * A table of a database, with the options of `format("jdbc")` (`url`, `dbtable` and what it takes
   * besides), or a compacted topic, with the options of `format("kafka")`
   * (`kafka.bootstrap.servers`, `topic`).
   */
  def into(changes: DataFrame, options: Map[String, String]): UpsertWriter =
    new UpsertWriter(changes, options)

  /** The same. */
  def into(changes: DataFrame, options: JMap[String, String]): UpsertWriter =
    into(changes, options.asScala.toMap)
}

/** How changes are written to a target. */
final class UpsertWriter private[streamjoin] (changes: DataFrame, target: Map[String, String]) {
  private var keys = Seq.empty[String]
  private var diffColumn = Option.empty[String]

  /** The columns that identify a row. Nulls are values in them. */
  @varargs def key(column: String, more: String*): UpsertWriter = key((column +: more).asJava)

  /** The same, as a list. */
  def key(columns: JList[String]): UpsertWriter = {
    keys = columns.asScala.toSeq
    this
  }

  /** The column with the number of copies that came, or went where it is negative. */
  def diff(column: String): UpsertWriter = {
    diffColumn = Some(column)
    this
  }

  /** The writer of the query, which is started as any other. */
  def writeStream: DataStreamWriter[Row] = {
    val options = Map("keys" -> new ObjectMapper().writeValueAsString(keys.asJava)) ++
      diffColumn.map("diff" -> _)
    changes.writeStream.format("streamjoin-upsert").options(target).options(options)
  }
}
