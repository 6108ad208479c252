package org.apache.spark.sql.streamjoin.upsert

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.ObjectNode
import org.apache.hadoop.fs.Path

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.streamjoin.base.JsonLog

/**
 * The identity of a target.
 *
 * @param kind
 *   table, jdbc or kafka
 * @param name
 *   the user's full name for it
 * @param ids
 *   its ids, by the system that assigned them: a table that was dropped and created again has
 *   another id. Two versions of a catalog may know different ids of one table.
 */
final private[upsert] case class TargetIdentity(kind: String, name: String, ids: Map[String, String]) {

  /** Ids decide if both have them; a renamed table is the same one. */
  def isSame(other: TargetIdentity): Boolean = kind == other.kind && {
    val both = ids.keySet & other.ids.keySet
    if (both.isEmpty) name == other.name else both.forall(id => ids(id) == other.ids(id))
  }

  def words: String =
    if (ids.isEmpty) name
    else ids.toSeq.sorted.map { case (id, value) => s"$id $value" }.mkString(s"$name (", ", ", ")")
}

/**
 * The record of a query's target in its checkpoint.
 *
 * @param micros
 *   whether times in JSON have microseconds. Checkpoints of earlier versions wrote milliseconds,
 *   including in keys, and would not find those keys again.
 */
final private[upsert] case class TargetRecord(identity: TargetIdentity, micros: Boolean)

/** Its file in a checkpoint, `upsert-target/0`. */
final private[upsert] class TargetLog(session: SparkSession, checkpoint: Path)
    extends JsonLog[TargetRecord](session, checkpoint, TargetLog.Directory) {
  override protected def version: Int = 1

  def write(record: TargetRecord): Unit = replace(0, record)

  override protected def toJson(entry: TargetRecord, root: ObjectNode): Unit = {
    root.put("kind", entry.identity.kind).put("name", entry.identity.name).put("micros", entry.micros)
    val ids = root.putObject("ids")
    entry.identity.ids.toSeq.sorted.foreach { case (id, value) => ids.put(id, value) }
  }

  override protected def fromJson(root: JsonNode): TargetRecord = {
    val ids = root.path("ids").properties().asScala.map(id => id.getKey -> id.getValue.asText).toMap
    TargetRecord(
      TargetIdentity(root.path("kind").asText, root.path("name").asText, ids),
      root.path("micros").asBoolean
    )
  }
}

private[upsert] object TargetLog {
  val Directory = "upsert-target"
}
