package org.apache.spark.sql.streamjoin.checkpoint

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.ObjectNode
import org.apache.hadoop.fs.Path

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.sql.streamjoin.base.JsonLog
import org.apache.spark.sql.types.{DataType, StructType}

/**
 * The outline of an operator.
 *
 * @param before
 *   if the query was changed, and with it the rows in state: the first batch with other rows, and
 *   the outline until then. That one counts for as long as the batch is not committed.
 */
final private[checkpoint] case class RecordedOutline(
    now: OperatorOutline,
    before: Option[(Long, RecordedOutline)] = None
) {

  /** The outline after a batch. */
  def after(batch: Long): OperatorOutline = until(batch + 1).now

  /** What counts before a batch runs: a change that begins with it was abandoned. */
  def until(batch: Long): RecordedOutline = before match {
    case Some((from, old)) if batch <= from => old.until(batch)
    case _ => this
  }

  /** An outline that counts from a batch on. The rows in state may be the same. */
  def followedBy(next: OperatorOutline, batch: Long): RecordedOutline = {
    val old = until(batch)
    val isSame = old.now.inputs.map(_.rows) == next.inputs.map(_.rows)
    RecordedOutline(next, if (isSame) old.before else Some(batch -> old))
  }

  /** Without the outlines that no batch from this one on has had. */
  def since(first: Long): RecordedOutline =
    copy(before = before.collect { case (from, old) if from > first => from -> old.since(first) })
}

/**
 * `<checkpoint>/stream-join-outlines/<n>`: the outline of each of our operators with state, by
 * ordinal. The first batch of a run writes those that are new or have changed.
 *
 * @param checkpoint
 *   root folder of the checkpoint
 */
final private[streamjoin] class OutlineLog(session: SparkSession, checkpoint: Path)
    extends JsonLog[RecordedOutline](session, checkpoint, OutlineLog.Directory) {

  override protected def version: Int = 1

  /** @param batch the batch that has run with it */
  def record(outline: OperatorOutline, batch: Long): Unit = {
    val number = outline.ordinal.toLong
    val recorded = get(number)
    if (!recorded.exists(_.after(batch) == outline)) {
      val next = recorded.fold(RecordedOutline(outline))(_.followedBy(outline, batch))
      replace(number, next.since(oldest.getOrElse(batch)))
    }
  }

  /** The first batch whose state may be read. */
  private def oldest: Option[Long] = {
    val hadoopConf = session.asInstanceOf[ClassicSession].sessionState.newHadoopConf()
    CommittedBatches.all(checkpoint, hadoopConf).headOption
  }

  /** The outlines after a committed batch, by ordinal. */
  def after(batch: Long): Seq[OperatorOutline] =
    Iterator
      .from(0)
      .map(number => get(number.toLong))
      .takeWhile(_.isDefined)
      .flatten
      .map(_.after(batch))
      .toSeq

  /** A release that knows one change reads the last one. */
  override protected def toJson(entry: RecordedOutline, root: ObjectNode): Unit = {
    toJson(entry.now, root)
    entry.before.foreach { case (from, old) =>
      root.put("from", from)
      toJson(old, root.putObject("before"))
    }
  }

  private def toJson(entry: OperatorOutline, root: ObjectNode): Unit = {
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

  override protected def fromJson(root: JsonNode): RecordedOutline = RecordedOutline(
    outlineFrom(root),
    Option(root.get("before")).map(old => root.path("from").asLong -> fromJson(old))
  )

  private def outlineFrom(root: JsonNode): OperatorOutline = OperatorOutline(
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
