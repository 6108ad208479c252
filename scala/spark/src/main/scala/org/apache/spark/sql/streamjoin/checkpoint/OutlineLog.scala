package org.apache.spark.sql.streamjoin.checkpoint

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.ObjectNode
import org.apache.hadoop.fs.Path

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.streamjoin.base.JsonLog
import org.apache.spark.sql.types.{DataType, StructType}

/**
 * `<checkpoint>/stream-join-outlines/<n>`: the outline of each of our operators with state, by
 * ordinal. The first batch of a run writes those that are new or have changed.
 *
 * @param checkpoint
 *   root folder of the checkpoint
 */
final private[streamjoin] class OutlineLog(session: SparkSession, checkpoint: Path)
    extends JsonLog[OperatorOutline](session, checkpoint, OutlineLog.Directory) {

  override protected def version: Int = 1

  def record(outline: OperatorOutline): Unit = {
    val number = outline.ordinal.toLong
    if (!get(number).contains(outline)) replace(number, outline)
  }

  /** The outlines in the checkpoint, by ordinal. */
  def all: Seq[OperatorOutline] =
    Iterator.from(0).map(number => get(number.toLong)).takeWhile(_.isDefined).flatten.toSeq

  override protected def toJson(entry: OperatorOutline, root: ObjectNode): Unit = {
    root.put("operator", entry.ordinal).put("kind", entry.kind).put("title", entry.title)
    val columns = root.putArray("columns")
    entry.columns.foreach(columns.add)
    val inputs = root.putArray("inputs")
    entry.inputs.foreach(toJson(_, inputs.addObject()))
  }

  private def toJson(input: InputOutline, node: ObjectNode): Unit = {
    input.side.foreach(node.put("side", _))
    node.put("name", input.name).put("stored", input.stored.json).put("shown", input.shown)
    def numbers(name: String, all: Seq[Int]): Unit = {
      val array = node.putArray(name)
      all.foreach(array.add(_))
    }
    numbers("keys", input.keys)
    numbers("times", input.times)
    numbers("expiring", input.expiring)
    numbers("timeColumns", input.timeColumns)
    val limits = node.putArray("limits")
    input.limits.foreach { limit =>
      val until = limits.addObject().put("time", limit.time).putArray("until")
      limit.until.foreach { reached =>
        until.addObject().put("column", reached.key).put("postponeMicros", reached.postpone)
      }
    }
    node.put("recordsMatches", input.recordsMatches).put("newestByKey", input.newestByKey): Unit
  }

  override protected def fromJson(root: JsonNode): OperatorOutline = OperatorOutline(
    root.path("operator").asInt,
    root.path("kind").asText,
    root.path("title").asText,
    elements(root, "columns").map(_.asText),
    elements(root, "inputs").map(inputFrom)
  )

  private def inputFrom(node: JsonNode): InputOutline = InputOutline(
    Option(node.get("side")).map(_.asText),
    node.path("name").asText,
    DataType.fromJson(node.path("stored").asText) match {
      case columns: StructType => columns
      case other => throw unreadable(s"$other is no row")
    },
    node.path("shown").asInt,
    elements(node, "keys").map(_.asInt),
    elements(node, "times").map(_.asInt),
    elements(node, "expiring").map(_.asInt),
    elements(node, "timeColumns").map(_.asInt),
    elements(node, "limits").map { limit =>
      KeepingLimit(
        limit.path("time").asInt,
        elements(limit, "until").map { reached =>
          KeepingLimit.Reached(reached.path("column").asInt, reached.path("postponeMicros").asLong)
        }
      )
    },
    node.path("recordsMatches").asBoolean,
    node.path("newestByKey").asBoolean
  )

  private def elements(node: JsonNode, name: String): Seq[JsonNode] =
    node.path(name).elements().asScala.toSeq
}

private[streamjoin] object OutlineLog {
  val Directory = "stream-join-outlines"
}
