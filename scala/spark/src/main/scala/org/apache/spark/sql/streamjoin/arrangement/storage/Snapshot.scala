package org.apache.spark.sql.streamjoin.arrangement.storage

import java.util.UUID

import com.fasterxml.jackson.databind.ObjectMapper

import org.apache.spark.sql.connector.read.streaming.Offset

/**
 * The part of an arrangement that a reader has seen: the rows of a version or, while a new reader
 * reads its first version in slices, the rows of the first slices.
 *
 * @param version
 *   -1 before the first version
 * @param slices
 *   number of slices seen, and in total; none once all have been seen
 * @param arrangement
 *   id of the arrangement, because another one may get its name
 * @param id
 *   id of the version, because another one may get its number; none if written before this was
 *   recorded, until it is compared with the arrangement
 */
final private[streamjoin] case class Snapshot(
    version: Long,
    slices: Option[(Int, Int)] = None,
    arrangement: Option[UUID] = None,
    id: Option[UUID] = None
) extends Offset {
  override def json: String = {
    val node = Snapshot.mapper.createObjectNode().put("version", version)
    slices.foreach { case (seen, all) => node.putArray("slices").add(seen).add(all) }
    arrangement.foreach(id => node.put("arrangement", id.toString))
    id.foreach(id => node.put("id", id.toString))
    node.toString
  }

  def isEmpty: Boolean = version < 0

  /** The version, unless it is before the first. */
  def versionId: Option[VersionId] = id.filter(_ => !isEmpty).map(VersionId(version, _))

  /** Whether it includes rows whose primary key has a hash. */
  def has(hash: Int): Boolean = slices.forall { case (seen, all) => Snapshot.slice(hash, all) < seen }
}

private[streamjoin] object Snapshot {
  val Nothing: Snapshot = Snapshot(-1)

  private val mapper = new ObjectMapper()

  def of(offset: Offset): Snapshot = offset match {
    case snapshot: Snapshot => snapshot
    // After a restart, offsets are text.
    case other => fromJson(other.json)
  }

  def fromJson(json: String): Snapshot = {
    val node = mapper.readTree(json)
    val slices = Option(node.get("slices")).map(pair => (pair.get(0).asInt, pair.get(1).asInt))
    def id(name: String) = Option(node.get(name)).map(id => UUID.fromString(id.asText))
    Snapshot(node.get("version").asLong, slices, id("arrangement"), id("id"))
  }

  /** The slice of a row, independent of the bits that decide its partition. */
  def slice(hash: Int, slices: Int): Int = {
    var mixed = hash * 0x9e3779b9
    mixed ^= mixed >>> 15
    Math.floorMod(mixed, slices)
  }
}
