package org.apache.spark.sql.streamjoin.operators

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.ObjectNode
import org.apache.hadoop.fs.Path

import org.apache.spark.sql.streamjoin.base.{JsonLog, StreamJoinErrors}
import org.apache.spark.sql.streamjoin.plans.{OperatorDescription, StatefulNode}
import org.apache.spark.sql.{AnalysisException, SparkSession}

/**
 * `<checkpoint>/stream-joins/<n>`: our stateful operators in a query, by ordinal, each recorded
 * before its first batch.
 *
 * @param checkpoint
 *   root folder of the checkpoint
 */
final private[streamjoin] class OperatorLog(session: SparkSession, checkpoint: Path)
    extends JsonLog[OperatorRecord](session, checkpoint, OperatorLog.Directory) {
  import OperatorLog._

  override protected def version: Int = 2

  override protected def toJson(entry: OperatorRecord, root: ObjectNode): Unit = {
    root.put(KindKey, entry.kind).put(PartitionsKey, entry.partitions)
    entry.zone.foreach(root.put(SessionZone.Key, _))
    entry.properties.toSeq.sorted.foreach { case (name, value) => root.put(name, value) }
  }

  override protected def fromJson(root: JsonNode): OperatorRecord = {
    val texts =
      root.properties().asScala.filter(_.getKey != "version").map(e => e.getKey -> e.getValue.asText).toMap
    OperatorRecord(
      texts.getOrElse(KindKey, throw unreadable(s"it has no $KindKey")),
      texts
        .get(PartitionsKey)
        .flatMap(_.toIntOption)
        .getOrElse(throw unreadable(s"it has no $PartitionsKey")),
      texts -- Seq(KindKey, PartitionsKey, SessionZone.Key),
      texts.get(SessionZone.Key)
    )
  }

  /** The number of partitions that an operator started with. */
  def partitions(ordinal: Int): Option[Int] = get(ordinal.toLong).map(_.partitions)

  /** Checks what the query says of an operator against the record, if there is one. */
  def verifyWritten(node: StatefulNode): Unit = verify(node, _.written)

  /** Called before the first batch of a run. */
  def verifyOrRecord(node: StatefulNode, partitions: Int): Unit = {
    val record = OperatorRecord(node.kind, partitions, node.description.all, Some(SessionZone.current))
    if (!add(node.ordinal.toLong, record)) verify(node, _.all)
  }

  private def verify(node: StatefulNode, properties: OperatorDescription => Map[String, String]): Unit =
    get(node.ordinal.toLong).foreach { recorded =>
      val before = recorded.properties + (KindKey -> recorded.kind)
      (Seq(KindKey -> node.kind) ++ properties(node.description).toSeq.sorted).foreach { case (name, is) =>
        val was = before.getOrElse(name, "nothing")
        if (!SessionZone.isSame(was, recorded.zone, is)) throw changed(checkpoint, name, was, is)
      }
    }
}

/**
 * The record of an operator.
 *
 * @param partitions
 *   number of partitions at the start; it never changes, because rows stay in the store of their
 *   partition
 * @param zone
 *   time zone of the session that recorded it
 */
final private[streamjoin] case class OperatorRecord(
    kind: String,
    partitions: Int,
    properties: Map[String, String],
    zone: Option[String]
)

private[streamjoin] object OperatorLog {
  val Directory = "stream-joins"

  private val KindKey = "kind"
  private val PartitionsKey = "partitions"

  /** The property that is reported if the number of operators has changed. */
  val Number = "number_of_operators"

  /** The error for a property that has changed. */
  def changed(checkpoint: Path, what: String, was: String, is: String): AnalysisException =
    StreamJoinErrors.analysis(
      "STREAMJOIN_CHECKPOINT_CHANGED",
      "checkpoint" -> checkpoint.toString,
      "what" -> what,
      "was" -> was,
      "is" -> is
    )
}
