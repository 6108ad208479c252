package org.apache.spark.sql.streamjoin.watermark

import java.util.concurrent.{CompletableFuture, ConcurrentHashMap}

import scala.jdk.CollectionConverters._
import scala.util.Try

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.ObjectNode
import org.apache.hadoop.fs.Path

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.plans.logical.{EventTimeWatermark, LogicalPlan}
import org.apache.spark.sql.streamjoin.base.{JsonLog, StreamJoinErrors}
import org.apache.spark.util.ThreadUtils

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
    extends JsonLog[KeyedWatermarks](session, checkpoint, KeyedWatermarkLog.Directory) {

  override protected def version: Int = 1

  override protected def toJson(entry: KeyedWatermarks, root: ObjectNode): Unit = {
    val keys = root.putArray("keys")
    entry.columns.zip(entry.millis).foreach { case (column, millis) =>
      val key = keys.addObject().put("column", column)
      millis.foreach(value => key.put("watermarkMs", value))
    }
  }

  override protected def fromJson(root: JsonNode): KeyedWatermarks = {
    val keys = root.path("keys").elements().asScala.toIndexedSeq
    KeyedWatermarks(
      keys.map(_.path("column").asText),
      keys.map(key => Option(key.get("watermarkMs")).filterNot(_.isNull).map(millis))
    )
  }

  private def millis(value: JsonNode): Long =
    if (value.canConvertToLong) value.asLong else throw unreadable(s"$value is no watermark")

  /**
   * Writes the watermarks of a batch while Spark writes its own logs: a file of a checkpoint takes as long as a small batch
   * does elsewhere. The batch must not run before what this returns is done, and fails if it failed.
   */
  def addInBackground(batch: Long, entry: KeyedWatermarks): CompletableFuture[Void] = {
    val written = CompletableFuture.runAsync(() => add(batch, entry): Unit, KeyedWatermarkLog.writers)
    val folder = metadataPath.toString
    KeyedWatermarkLog.unfinished.put(folder, written)
    written.whenComplete((_, _) => KeyedWatermarkLog.unfinished.remove(folder, written): Unit)
  }

  /** The watermarks of a batch, checked against the event-time columns of the query. */
  def read(batch: Long, keys: WatermarkKeys): Option[KeyedWatermarks] = {
    awaitUnfinished()
    get(batch).map(checked(_, keys))
  }

  override def purgeAfter(batch: Long): Unit = {
    awaitUnfinished()
    super.purgeAfter(batch)
  }

  /** A write that an earlier run of the query may have left behind in this process: what it will have written is what counts. */
  private def awaitUnfinished(): Unit = {
    val left = KeyedWatermarkLog.unfinished.get(metadataPath.toString)
    if (left != null) Try(left.join()): Unit
  }

  /** Those of a batch that has run. Without them nobody knows which rows it took for late. */
  def readOfLast(batch: Long, keys: WatermarkKeys): KeyedWatermarks = read(batch, keys).getOrElse(
    throw JsonLog.unreadable(batchIdToPath(batch), s"it is missing, and batch $batch has run by it")
  )

  private def checked(entry: KeyedWatermarks, keys: WatermarkKeys): KeyedWatermarks = {
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

  private lazy val writers = ThreadUtils.newDaemonCachedThreadPool("streamjoin-watermark-log")

  /** The last write of each log, by its folder. */
  private val unfinished = new ConcurrentHashMap[String, CompletableFuture[Void]]
}
