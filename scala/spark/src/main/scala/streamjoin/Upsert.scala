package streamjoin

import java.util.{List => JList, Map => JMap}

import scala.annotation.varargs
import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.ObjectMapper

import org.apache.spark.sql.streaming.DataStreamWriter
import org.apache.spark.sql.{DataFrame, Row}

/**
 * Keeps the current rows of a stream of changes, such as that of a [[DeltaJoin]], in a target by
 * key. Each batch is applied exactly once.
 *
 * {{{
 * Upsert.intoTable(changes, "shop.orders").key("order_id")
 *   .writeStream.option("checkpointLocation", "...").start()
 * }}}
 */
object Upsert {

  /** Writes to a table of a format with `MERGE`, such as Delta Lake or Iceberg. */
  def intoTable(changes: DataFrame, table: String): UpsertWriter =
    new UpsertWriter(changes, Map("table" -> table))

  /**
   * Writes to a table of a database or to a compacted topic.
   *
   * @param options
   *   for a database, those of `format("jdbc")` (`url`, `dbtable` and others); for a topic, those
   *   of `format("kafka")` (`kafka.bootstrap.servers`, `topic`)
   */
  def into(changes: DataFrame, options: Map[String, String]): UpsertWriter =
    new UpsertWriter(changes, options)

  /** Writes to a table of a database or to a compacted topic, for Java. */
  def into(changes: DataFrame, options: JMap[String, String]): UpsertWriter =
    into(changes, options.asScala.toMap)
}

/** Configures how changes are written to a target. */
final class UpsertWriter private[streamjoin] (changes: DataFrame, target: Map[String, String]) {
  private var keys = Seq.empty[String]
  private var diffColumn = Option.empty[String]

  /** Sets the columns that identify a row. Nulls are values in them. */
  @varargs def key(column: String, more: String*): UpsertWriter = key((column +: more).asJava)

  /** Sets the columns that identify a row. Nulls are values in them. */
  def key(columns: JList[String]): UpsertWriter = {
    keys = columns.asScala.toSeq
    this
  }

  /**
   * Sets the column with the number of copies that are added, or removed if it is negative.
   * Default: `_diff`.
   */
  def diff(column: String): UpsertWriter = {
    diffColumn = Some(column)
    this
  }

  /** Returns the writer of the query. Start it like any streaming query. */
  def writeStream: DataStreamWriter[Row] = {
    val options = Map("keys" -> new ObjectMapper().writeValueAsString(keys.asJava)) ++
      diffColumn.map("diff" -> _)
    changes.writeStream.format("streamjoin-upsert").options(target).options(options)
  }
}
