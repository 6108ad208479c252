package org.apache.spark.sql.streamjoin.upsert

import java.util.Locale

import com.fasterxml.jackson.core.JacksonException
import com.fasterxml.jackson.databind.ObjectMapper

import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.catalyst.util.CaseInsensitiveMap
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streamjoin.arrangement.storage.{ChangeColumns, RowKey}
import org.apache.spark.sql.streamjoin.base.{OptionValues, StreamJoinErrors}
import org.apache.spark.sql.types._

/** The kind of a target. */
sealed private[streamjoin] trait TargetKind

private[streamjoin] object TargetKind {

  /** A catalog table of a format with `MERGE`. */
  final case class Table(name: String) extends TargetKind

  /** A table of a database, with the options of `format("jdbc")`. */
  final case class Jdbc(options: Map[String, String]) extends TargetKind

  /** A topic, with the options of `format("kafka")`. */
  final case class Kafka(options: Map[String, String]) extends TargetKind
}

/**
 * The options of `writeStream.format("streamjoin-upsert")`.
 *
 * @param keys
 *   the columns that identify a row in the target
 * @param diff
 *   the column with the number of copies of a row that are added, or removed if negative
 */
final private[streamjoin] case class UpsertOptions(keys: Seq[String], diff: String, target: TargetKind) {

  /**
   * The columns of the changes, by their role.
   *
   * @throws org.apache.spark.sql.AnalysisException
   *   if a column is missing or unsuitable for its role
   */
  def columnsOf(schema: StructType): UpsertColumns = {
    val resolver = SQLConf.get.resolver
    val diffs = schema.filter(field => resolver(field.name, diff))
    diffs match {
      case Seq(column) if column.dataType.isInstanceOf[IntegralType] =>
      case Seq(column) =>
        throw StreamJoinErrors.analysis(
          "STREAMJOIN_UPSERT.DIFF_TYPE",
          "column" -> column.name,
          "type" -> column.dataType.sql
        )
      case none =>
        throw StreamJoinErrors.analysis(
          if (none.isEmpty) "STREAMJOIN_UPSERT.NO_DIFF" else "STREAMJOIN_UPSERT.DIFF_TWICE",
          "diff" -> diff,
          "columns" -> schema.names.mkString(", ")
        )
    }
    // The time of a change is not part of a row: a row is removed at another time than it was
    // added.
    val besides = Seq(diff, ChangeColumns.Time, ChangeColumns.Version)
    val rows = schema.filterNot(field => besides.exists(resolver(_, field.name)))
    rows
      .groupBy(field => rows.indexWhere(other => resolver(other.name, field.name)))
      .values
      .find(_.size > 1)
      .foreach { same =>
        throw StreamJoinErrors.analysis("STREAMJOIN_UPSERT.COLUMN_TWICE", "column" -> same.head.name)
      }
    val found = keys.map { key =>
      val at = rows.indexWhere(field => resolver(field.name, key))
      if (at < 0)
        throw StreamJoinErrors.analysis(
          "STREAMJOIN_UPSERT.UNKNOWN_KEY",
          "column" -> key,
          "columns" -> rows.map(_.name).mkString(", ")
        )
      // Strings that are equal under a collation are different keys of a topic.
      if (!RowKey.canHave(rows(at).dataType))
        throw StreamJoinErrors.analysis(
          "STREAMJOIN_UPSERT.KEY_TYPE",
          "column" -> key,
          "type" -> rows(at).dataType.sql
        )
      at
    }
    if (found.distinct.size < found.size)
      throw StreamJoinErrors.analysis("STREAMJOIN_UPSERT.KEY_COLUMN_TWICE")
    UpsertColumns(schema.fieldIndex(diffs.head.name), rows.map(field => schema.fieldIndex(field.name)), found)
  }
}

/**
 * @param diff
 *   position of the column with the number of copies
 * @param rows
 *   positions of the columns of the target
 * @param keys
 *   positions, among the columns of the target, of those that identify a row
 */
final private[streamjoin] case class UpsertColumns(diff: Int, rows: Seq[Int], keys: Seq[Int])

private[streamjoin] object UpsertOptions {
  val Keys = "keys"
  val Diff = "diff"
  val Table = "table"
  val Jdbc = "jdbc"
  val Kafka = "kafka"
  val Url = "url"
  val Topic = "topic"
  private val Servers = "kafka.bootstrap.servers"

  /** The options that DataStreamWriter adds to those of a sink, and that no target needs. */
  private val OfQuery = Seq("checkpointLocation", "queryName", "path")

  private val mapper = new ObjectMapper()

  def apply(parameters: Map[String, String]): UpsertOptions = {
    val options = CaseInsensitiveMap(parameters)
    val own = (Seq(Keys, Diff, Table) ++ OfQuery).map(_.toLowerCase(Locale.ROOT))
    val others = parameters.filterNot { case (name, _) => own.contains(name.toLowerCase(Locale.ROOT)) }
    def has(name: String) = options.get(name).exists(_.trim.nonEmpty)
    val target = (options.get(Table), options.contains(Url), options.contains(Servers)) match {
      case (Some(table), false, false) if table.trim.nonEmpty =>
        others.headOption.foreach { case (name, _) =>
          throw StreamJoinErrors.analysis("STREAMJOIN_UPSERT.TABLE_OPTION", "option" -> name)
        }
        TargetKind.Table(table)
      case (None, true, false) if has("dbtable") => TargetKind.Jdbc(others)
      case (None, false, true) if has(Topic) => TargetKind.Kafka(others)
      case _ =>
        throw StreamJoinErrors.analysis(
          "STREAMJOIN_UPSERT.TARGET",
          "found" -> StreamJoinErrors.listed(others.keys.toSeq.sorted)
        )
    }
    val keys = options.get(Keys).map(keysOf).getOrElse(Nil)
    if (keys.isEmpty)
      throw StreamJoinErrors.analysis("STREAMJOIN_UPSERT.NO_KEY")
    UpsertOptions(keys, options.getOrElse(Diff, ChangeColumns.Diff), target)
  }

  private def keysOf(json: String): Seq[String] = {
    val wrong =
      OptionValues.rejected(Keys, json, """a JSON list of columns, such as ["order_id", "line"]""")
    val list =
      try mapper.readTree(json)
      catch { case _: JacksonException => throw wrong }
    if (!list.isArray) throw wrong
    (0 until list.size).map { at =>
      if (!list.get(at).isTextual) throw wrong
      list.get(at).asText
    }
  }

  /** The error for a column that the table does not have. */
  private[upsert] def noColumn(table: String, column: String, there: Seq[String]): AnalysisException =
    StreamJoinErrors.analysis(
      "STREAMJOIN_UPSERT.NO_COLUMN",
      "table" -> table,
      "column" -> column,
      "columns" -> there.mkString(", ")
    )
}
