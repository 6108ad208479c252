package org.apache.spark.sql.streamjoin.watermark

import java.io.{InputStream, OutputStream}

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.core.JacksonException
import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}
import org.apache.hadoop.fs.Path

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.plans.logical.{EventTimeWatermark, LogicalPlan}
import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.sql.execution.streaming.checkpointing.HDFSMetadataLog
import org.apache.spark.sql.streamjoin.StreamJoinErrors

/**
 * The event-time columns of a query in the order of its analyzed plan: their place tells them apart across restarts,
 * for the ids in the nodes are new in every plan.
 */
final private[streamjoin] case class WatermarkKeys(origins: IndexedSeq[Origin], columns: IndexedSeq[String])

private[streamjoin] object WatermarkKeys {
  def of(analyzed: LogicalPlan): WatermarkKeys = {
    val marks = analyzed.collect { case mark: EventTimeWatermark => mark }
    WatermarkKeys(Origin.number(marks.map(_.nodeId)).toIndexedSeq, marks.map(_.eventTime.name).toIndexedSeq)
  }
}

/** The watermarks of a batch, as they are kept in the checkpoint: by place, in milliseconds, `None` before the first. */
final private[streamjoin] case class KeyedWatermarks(
    columns: IndexedSeq[String],
    millis: IndexedSeq[Option[Long]]
)

/**
 * `<checkpoint>/keyed-watermarks/<batch>`: the watermarks that a batch sees, written before it runs, so that a replay
 * sees the same.
 */
final private[streamjoin] class KeyedWatermarkLog(session: SparkSession, checkpoint: Path)
    extends HDFSMetadataLog[KeyedWatermarks](
      session.asInstanceOf[ClassicSession],
      new Path(checkpoint, KeyedWatermarkLog.Directory).toString
    ) {
  import KeyedWatermarkLog._

  override protected def serialize(entry: KeyedWatermarks, out: OutputStream): Unit = {
    val root = json.createObjectNode().put("version", Version)
    val keys = root.putArray("keys")
    entry.columns.zip(entry.millis).foreach { case (column, millis) =>
      val key = keys.addObject().put("column", column)
      millis.foreach(value => key.put("watermarkMs", value))
    }
    out.write(json.writeValueAsBytes(root))
  }

  override protected def deserialize(in: InputStream): KeyedWatermarks = {
    val root =
      try json.readTree(in)
      catch { case damaged: JacksonException => throw unreadable(damaged.getOriginalMessage) }
    val version = Option(root.get("version")).map(_.asInt)
    if (!version.contains(Version))
      throw unreadable(s"it has version ${version.getOrElse("none")}, not $Version")
    val keys = root.path("keys").elements().asScala.toIndexedSeq
    KeyedWatermarks(
      keys.map(_.path("column").asText),
      keys.map(key => Option(key.get("watermarkMs")).filterNot(_.isNull).map(millis))
    )
  }

  private def millis(value: JsonNode): Long =
    if (value.canConvertToLong) value.asLong else throw unreadable(s"$value is no watermark")

  private def unreadable(reason: String) =
    StreamJoinErrors.analysis(
      "STREAMJOIN_CHECKPOINT_UNREADABLE",
      "file" -> metadataPath.toString,
      "reason" -> reason
    )

  /** The watermarks of a batch, checked against the event-time columns of the query. */
  def read(batch: Long, keys: WatermarkKeys): Option[KeyedWatermarks] = get(batch).map { entry =>
    if (entry.columns != keys.columns)
      throw StreamJoinErrors.analysis(
        "STREAMJOIN_WATERMARK_KEYS_CHANGED",
        "checkpoint" -> metadataPath.getParent.toString,
        "was" -> entry.columns.mkString(", "),
        "is" -> keys.columns.mkString(", ")
      )
    entry
  }
}

private[streamjoin] object KeyedWatermarkLog {
  val Directory = "keyed-watermarks"
  private val Version = 1
  private val json = new ObjectMapper()
}
