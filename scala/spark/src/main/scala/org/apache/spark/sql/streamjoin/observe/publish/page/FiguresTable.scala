package org.apache.spark.sql.streamjoin.observe.publish.page

import java.time.Instant

import scala.jdk.CollectionConverters._
import scala.xml.Node

import com.fasterxml.jackson.databind.JsonNode

import org.apache.spark.util.Utils

/** The figures of a batch as HTML tables: one per operator, with a row per input. */
private[page] object FiguresTable {

  /** The columns of a table of inputs. */
  private val Columns = Seq[(String, JsonNode => Any)](
    "Input" -> (text(_, "name")),
    "Rows in" -> (text(_, "rowsIn")),
    "Late" -> (text(_, "late")),
    "Rows kept" -> (text(_, "rowsKept")),
    "Bytes kept" -> (bytes(_, "bytesKept")),
    "Watermark" -> (items(_, "columns").map(column => <div>{watermark(column)}</div>)),
    "Oldest row kept" -> (time(_, "oldest")),
    "Leaves after" -> (of =>
      Seq(time(of, "leavesAfter"), text(of, "leavesBy")).filter(_.nonEmpty).mkString(" of ")
    ),
    "Rows of one key" -> (items(_, "hotKeys").map(key => <div>{hotKey(key)}</div>))
  )

  def of(figures: JsonNode): Seq[Node] = items(figures, "operators").flatMap(operator)

  /** Rows that a batch has read, not counting rows that one operator passes to the next. */
  def rowsIn(figures: JsonNode): Long = {
    val read = items(figures, "operators").flatMap(items(_, "inputs")).filter(_.path("below").size == 0)
    read.map(_.path("rowsIn").asLong).sum
  }

  private def operator(of: JsonNode): Seq[Node] =
    <h5>{s"${text(of, "operator")}. ${text(of, "title")}"}</h5>
    <p>{
      s"Rows out: ${text(of, "rowsOut")}, of them without a match: ${text(of, "padded")}. " +
        s"Late: ${text(of, "late")}. Kept: ${text(of, "rowsKept")} rows in ${bytes(of, "bytesKept")}. " +
        s"Memory: ${bytes(of, "memoryBytes")}."
    }</p>
    <table class="table table-bordered table-sm sj-inputs" data-operator={text(of, "operator")}>
      <thead><tr>{Columns.map { case (header, _) => <th>{header}</th> }}</tr></thead>
      <tbody>{items(of, "inputs").map(input)}</tbody>
    </table>
    <ul>{(hints(of) ++ items(of, "inputs").flatMap(hints)).map(hint => <li class="sj-said">{hint}</li>)}</ul>

  private def input(of: JsonNode): Node =
    <tr data-input={text(of, "name")}>{Columns.map { case (_, cell) => <td>{cell(of)}</td> }}</tr>

  private def watermark(column: JsonNode): String = {
    val value = if (column.has("watermark")) time(column, "watermark") else "none yet"
    val holder = if (column.has("heldBy")) s", held by ${text(column, "heldBy")}" else ""
    s"${text(column, "name")}: $value$holder"
  }

  private def hotKey(key: JsonNode): String = {
    val share = s"${math.round(key.path("share").asDouble * 100)} %"
    if (key.has("key")) s"${text(key, "key")}: $share" else share
  }

  private def hints(of: JsonNode): Seq[String] = items(of, "hints").map(_.asText)

  private def items(of: JsonNode, field: String): Seq[JsonNode] = of.path(field).asScala.toSeq

  private def text(of: JsonNode, field: String): String = of.path(field).asText

  private def bytes(of: JsonNode, field: String): String = Utils.bytesToString(of.path(field).asLong)

  private def time(of: JsonNode, field: String): String =
    if (of.has(field)) Instant.ofEpochMilli(of.path(field).asLong).toString else ""
}
