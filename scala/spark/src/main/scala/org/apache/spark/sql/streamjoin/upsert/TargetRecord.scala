package org.apache.spark.sql.streamjoin.upsert

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.ObjectNode
import org.apache.hadoop.fs.Path

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.streamjoin.base.JsonLog

/**
 * What tells a target from others.
 *
 * @param kind
 *   table, jdbc or kafka
 * @param name
 *   what the user calls it, in full
 * @param ids
 *   what identifies it, by what gave the id: a table that was dropped and created again has another
 *   one. Two versions of a catalog may know different ids of one table.
 */
final private[upsert] case class TargetIdentity(kind: String, name: String, ids: Map[String, String]) {

  /** Ids decide where both have them; a table that was renamed is the same one. */
  def isSame(other: TargetIdentity): Boolean = kind == other.kind && {
    val both = ids.keySet & other.ids.keySet
    if (both.isEmpty) name == other.name else both.forall(id => ids(id) == other.ids(id))
  }

  def words: String = s"$name${if (ids.isEmpty) ""
    else ids.toSeq.sorted.map { case (id, value) => s"$id $value" }.mkString(" (", ", ", ")")}"
}

/**
 * What a checkpoint says of the target of its query.
 *
 * @param micros
 *   whether times in JSON have microseconds. Checkpoints of earlier versions wrote milliseconds, in
 *   keys too, and would not find those keys again.
 */
final private[upsert] case class TargetRecord(identity: TargetIdentity, micros: Boolean)

/** The file of a checkpoint that has it, `upsert-target/0`. */
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
