package org.apache.spark.sql.streamjoin.arrangement.storage

import java.nio.charset.StandardCharsets.UTF_8
import java.util.UUID

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.{ArrayNode, ObjectNode}

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.streamjoin.base.JsonLog

/**
 * A block of rows in a file, of one partition of one index.
 *
 * @param offset
 *   position in the file, in bytes
 * @param bytes
 *   compressed size in the file
 * @param rawBytes
 *   size in memory
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
 * A base: all live rows of a version, in separate files.
 *
 * @param version
 *   the version whose rows it contains
 * @param manifest
 *   the later version whose manifest names the files
 */
final private[streamjoin] case class BaseRef(version: Long, manifest: Long) {

  /** The folder of its files. */
  def folder: Long = BaseRef.folder(version)
}

private[streamjoin] object BaseRef {

  /** A batch that writes a base writes that of the previous version. */
  def folder(version: Long): Long = version + 1
}

/**
 * A remembered version. Another version may have its number later: if the arrangement is restored
 * from a backup, it continues with the numbers after the restored version. Equal ids mean equal
 * rows and equal previous versions, because each version names the one before it.
 */
final private[streamjoin] case class VersionId(number: Long, id: UUID)

/**
 * A version of an arrangement: the changes since the previous version. A manifest is written once
 * and never changed, so a version always has the same rows.
 *
 * @param queryId
 *   query that maintains the arrangement
 * @param since
 *   oldest version that can be read when this one is written; the changes after it are kept
 * @param partitions
 *   number of partitions of each index in the files that it names
 * @param bases
 *   bases whose files exist, the newest last, see [[Manifest.keptBases]]
 * @param changes
 *   files with the rows that this version added and removed
 * @param baseFiles
 *   files of a base of an earlier version, if a base has been written
 * @param counts
 *   counts of the arrangement at this version, by name
 * @param tookAll
 *   whether the batch took all data that its sources had
 * @param batch
 *   batch of the query that wrote it; none if written before this was recorded
 * @param run
 *   run id of the query; none if written before this was recorded
 * @param id
 *   random, drawn when the version is written; for a manifest that was written before this was
 *   recorded, a digest of its text
 * @param previous
 *   id of the version before it, if there is one; none if written before this was recorded
 * @param negativeRows
 *   by partition, how many rows with negative copies the previous version had, where there are any
 * @param description
 *   name of the [[Description]] of its rows, unless that is `meta.json`
 * @param expires
 *   whether the query removes rows because of their age; false if written before this was recorded
 */
final private[streamjoin] case class Manifest(
    version: Long,
    queryId: UUID,
    timeMs: Long,
    since: Long,
    partitions: Int,
    bases: Seq[BaseRef],
    changes: Seq[BlockFile],
    baseFiles: Seq[BlockFile],
    counts: Map[String, Long],
    tookAll: Boolean = false,
    batch: Option[BatchOffsets] = None,
    run: Option[UUID] = None,
    id: UUID = UUID.randomUUID(),
    previous: Option[UUID] = None,
    negativeRows: Map[Int, Long] = Map.empty,
    description: Option[String] = None,
    expires: Boolean = false
) {
  def versionId: VersionId = VersionId(version, id)

  /** How many rows were added or removed. */
  def changedRows: Long =
    changes.iterator.flatMap(_.blocks).filter(_.index == 0).map(_.rows.toLong).sum

  /** False if the manifest predates counts by partition. */
  def knowsNegativeRows: Boolean = counts.getOrElse(Manifest.NegativeRows, 0L) == negativeRows.values.sum

  /**
   * Fails if a version can no longer be read.
   *
   * @param failure
   *   creates the error from a condition and its parameters
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

  /** The oldest version whose files are needed: that of the base of the oldest readable version. */
  def oldestNeeded: Long = bases.headOption.filter(_.version <= since).fold(0L)(_.version)

  /** The newest base from which a version can be built. */
  def baseFor(version: Long): Option[BaseRef] = bases.filter(_.version <= version).maxByOption(_.version)
}

private[streamjoin] object Manifest {
  val Directory = "versions"

  /** The format of a manifest whose files have the columns and partitions of `meta.json`. */
  val FirstFormat = 1

  /** The format of a manifest whose files have others. */
  val Changed = 2

  val Readable: Set[Int] = Set(FirstFormat, Changed)

  /**
   * The oldest format that has everything in a manifest, so that an older version of streamjoin
   * fails only where it would read wrong rows.
   *
   * @param first
   *   number of partitions in `meta.json`
   */
  def formatOf(manifest: Manifest, first: Int): Int =
    if (manifest.partitions == first && manifest.description.isEmpty) FirstFormat else Changed

  // Names of the counts.
  val Rows = "rows"
  val NegativeRows = "negativeRows"
  val ChangeBytes = "changeBytes"
  val BaseBytes = "baseBytes"

  /** How many of the newest bases are kept. */
  private val NewestBases = 2

  /**
   * The bases from which versions from `since` on are built: the one that serves the oldest
   * version, and the newest ones. Each base is a copy of all rows, so a single stalled reader must
   * not retain all later ones; a version between them takes longer to build.
   */
  def keptBases(bases: Seq[BaseRef], since: Long): Seq[BaseRef] = {
    val needed = bases.drop(bases.lastIndexWhere(_.version <= since))
    needed.take(1) ++ needed.drop(1).takeRight(NewestBases)
  }

  def toJson(manifest: Manifest, root: ObjectNode): Unit = {
    root.put("number", manifest.version).put("id", manifest.id.toString)
    manifest.previous.foreach(id => root.put("previous", id.toString))
    root.put("query", manifest.queryId.toString)
    root.put("time", manifest.timeMs).put("since", manifest.since).put("partitions", manifest.partitions)
    manifest.description.foreach(name => root.put("description", name))
    val bases = root.putArray("bases")
    manifest.bases.foreach(base => bases.addArray().add(base.version).add(base.manifest))
    putFiles(root.putArray("changes"), manifest.changes)
    putFiles(root.putArray("base_files"), manifest.baseFiles)
    val counts = root.putObject("counts")
    manifest.counts.toSeq.sorted.foreach { case (name, count) => counts.put(name, count) }
    if (manifest.tookAll) root.put("took_all", true): Unit
    if (manifest.expires) root.put("expires", true): Unit
    manifest.run.foreach(run => root.put("run", run.toString))
    if (manifest.negativeRows.nonEmpty) {
      val list = root.putArray("negative")
      manifest.negativeRows.toSeq.sorted.foreach { case (partition, rows) =>
        list.addArray().add(partition).add(rows)
      }
    }
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

  /**
   * @param first
   *   number of partitions in `meta.json`, which a manifest has that does not say it
   */
  def fromJson(root: JsonNode, first: => Int): Manifest = Manifest(
    root.get("number").asLong,
    UUID.fromString(root.get("query").asText),
    root.get("time").asLong,
    root.get("since").asLong,
    Option(root.get("partitions")).fold(first)(_.asInt),
    root.get("bases").elements().asScala.map(base => BaseRef(base.get(0).asLong, base.get(1).asLong)).toSeq,
    files(root.get("changes")),
    files(root.get("base_files")),
    root.get("counts").properties().asScala.map(entry => entry.getKey -> entry.getValue.asLong).toMap,
    root.path("took_all").asBoolean(false),
    Option(root.get("batch")).map { batch =>
      BatchOffsets(batch.get("time").asLong, batch.get("offsets").elements().asScala.map(_.asText).toSeq)
    },
    idIn(root, "run"),
    idIn(root, "id").getOrElse(UUID.nameUUIDFromBytes(root.toString.getBytes(UTF_8))),
    idIn(root, "previous"),
    root.path("negative").elements().asScala.map(one => one.get(0).asInt -> one.get(1).asLong).toMap,
    Option(root.get("description")).map(_.asText),
    root.path("expires").asBoolean(false)
  )

  private def idIn(root: JsonNode, name: String): Option[UUID] =
    Option(root.get(name)).map(id => UUID.fromString(id.asText))

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
final private[streamjoin] class VersionLog(session: SparkSession, folder: ArrangementFolder)
    extends JsonLog[Manifest](session, folder.root, Manifest.Directory) {
  private lazy val first = folder.meta.partitions
  override protected def version: Int = Manifest.Changed
  override protected def versionOf(entry: Manifest): Int = Manifest.formatOf(entry, first)
  override protected def readable: Set[Int] = Manifest.Readable
  override protected def toJson(entry: Manifest, root: ObjectNode): Unit = Manifest.toJson(entry, root)
  override protected def fromJson(root: JsonNode): Manifest = Manifest.fromJson(root, first)
}
