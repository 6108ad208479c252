package org.apache.spark.sql.streamjoin.arrangement

import java.util.UUID

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.{ArrayNode, ObjectNode}
import org.apache.hadoop.fs.Path

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.streamjoin.base.JsonLog

/**
 * A block of rows of one partition of one index, within a file.
 *
 * @param offset
 *   of its bytes in the file
 * @param bytes
 *   in the file, compressed
 * @param rawBytes
 *   in memory
 */
final private[streamjoin] case class BlockRef(
    index: Int,
    partition: Int,
    offset: Long,
    bytes: Int,
    rawBytes: Int,
    rows: Int,
    checksum: Int
)

/**
 * A file with the blocks of one task.
 *
 * @param path
 *   relative to the folder of the arrangement
 */
final private[streamjoin] case class BlockFile(path: String, blocks: Seq[BlockRef]) {
  def bytes: Long = blocks.map(_.bytes.toLong).sum
}

/**
 * All live rows of a version, in files of their own.
 *
 * @param manifest
 *   the version whose manifest names the files; they were written by the batch of that version, and
 *   hold the rows of the version before it
 */
final private[streamjoin] case class BaseRef(version: Long, manifest: Long)

/**
 * A version of an arrangement: what changed since the one before it. Once it is written it is never
 * written again, which makes a version exact.
 *
 * @param queryId
 *   of the query that maintains the arrangement
 * @param since
 *   the oldest version that can be read as of this one, and after which the changes are there
 * @param bases
 *   those whose files are there, the newest last
 * @param changes
 *   the rows that came and went with this version
 * @param baseFiles
 *   of the base of the version before, where this batch has written one
 * @param counts
 *   figures of the arrangement as of this version, by name
 * @param tookAll
 *   the batch took all that its sources had
 * @param batch
 *   which batch of the query has written it; none where it was written before that was noted
 * @param run
 *   of the query, likewise
 */
final private[streamjoin] case class Manifest(
    version: Long,
    queryId: UUID,
    timeMs: Long,
    since: Long,
    bases: Seq[BaseRef],
    changes: Seq[BlockFile],
    baseFiles: Seq[BlockFile],
    counts: Map[String, Long],
    tookAll: Boolean = false,
    batch: Option[BatchOffsets] = None,
    run: Option[UUID] = None
) {

  /** How many rows came or went. */
  def changedRows: Long =
    changes.iterator.flatMap(_.blocks).filter(_.index == 0).map(_.rows.toLong).sum

  /**
   * Fails if a version cannot be read any more.
   *
   * @param failure
   *   with a condition and its parameters
   */
  def checkRetains(
      version: Long,
      arrangement: String,
      failure: (String, Seq[(String, String)]) => Throwable
  ): Unit =
    if (version < since)
      throw failure(
        "STREAMJOIN_ARRANGEMENT_RETENTION",
        Seq("arrangement" -> arrangement, "version" -> version.toString, "since" -> since.toString)
      )

  /** The newest base from which a version can be built. */
  def baseFor(version: Long): Option[BaseRef] = bases.filter(_.version <= version).maxByOption(_.version)
}

private[streamjoin] object Manifest {
  val Directory = "versions"

  // Of the counts.
  val Rows = "rows"
  val NegativeRows = "negativeRows"
  val ChangeBytes = "changeBytes"
  val BaseBytes = "baseBytes"

  def toJson(manifest: Manifest, root: ObjectNode): Unit = {
    root.put("number", manifest.version).put("query", manifest.queryId.toString)
    root.put("time", manifest.timeMs).put("since", manifest.since)
    val bases = root.putArray("bases")
    manifest.bases.foreach(base => bases.addArray().add(base.version).add(base.manifest))
    putFiles(root.putArray("changes"), manifest.changes)
    putFiles(root.putArray("base_files"), manifest.baseFiles)
    val counts = root.putObject("counts")
    manifest.counts.toSeq.sorted.foreach { case (name, count) => counts.put(name, count) }
    if (manifest.tookAll) root.put("took_all", true): Unit
    manifest.run.foreach(run => root.put("run", run.toString))
    manifest.batch.foreach { batch =>
      val node = root.putObject("batch").put("time", batch.timeMs)
      val offsets = node.putArray("offsets")
      batch.offsets.foreach(offsets.add)
    }
  }

  private def putFiles(list: ArrayNode, files: Seq[BlockFile]): Unit = files.foreach { file =>
    val node = list.addObject().put("path", file.path)
    val blocks = node.putArray("blocks")
    file.blocks.foreach { block =>
      blocks
        .addArray()
        .add(block.index)
        .add(block.partition)
        .add(block.offset)
        .add(block.bytes)
        .add(block.rawBytes)
        .add(block.rows)
        .add(block.checksum)
    }
  }

  def fromJson(root: JsonNode): Manifest = Manifest(
    root.get("number").asLong,
    UUID.fromString(root.get("query").asText),
    root.get("time").asLong,
    root.get("since").asLong,
    root.get("bases").elements().asScala.map(base => BaseRef(base.get(0).asLong, base.get(1).asLong)).toSeq,
    files(root.get("changes")),
    files(root.get("base_files")),
    root.get("counts").properties().asScala.map(entry => entry.getKey -> entry.getValue.asLong).toMap,
    root.path("took_all").asBoolean(false),
    Option(root.get("batch")).map { batch =>
      BatchOffsets(batch.get("time").asLong, batch.get("offsets").elements().asScala.map(_.asText).toSeq)
    },
    Option(root.get("run")).map(run => UUID.fromString(run.asText))
  )

  private def files(list: JsonNode): Seq[BlockFile] = list
    .elements()
    .asScala
    .map { node =>
      val blocks = node.get("blocks").elements().asScala.map { block =>
        BlockRef(
          block.get(0).asInt,
          block.get(1).asInt,
          block.get(2).asLong,
          block.get(3).asInt,
          block.get(4).asInt,
          block.get(5).asInt,
          block.get(6).asInt
        )
      }
      BlockFile(node.get("path").asText, blocks.toIndexedSeq)
    }
    .toIndexedSeq
}

/** `<arrangement>/versions/<v>`: the manifests, written by the driver of the maintaining query. */
final private[streamjoin] class VersionLog(session: SparkSession, root: Path)
    extends JsonLog[Manifest](session, root, Manifest.Directory) {
  override protected def version: Int = ArrangementMeta.Format
  override protected def toJson(entry: Manifest, root: ObjectNode): Unit = Manifest.toJson(entry, root)
  override protected def fromJson(root: JsonNode): Manifest = Manifest.fromJson(root)
}
