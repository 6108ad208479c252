package org.apache.spark.sql.streamjoin.arrangement.maintain

import java.util.UUID

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import org.apache.spark.sql.streamjoin.arrangement.index.{ArrangementRef, KeyIndex}
import org.apache.spark.sql.streamjoin.arrangement.storage.{
  ArrangementFolder,
  BaseRef,
  BlockFile,
  BlockFileWriter,
  BlockWriter,
  Manifest
}

/**
 * A written base.
 *
 * @param version
 *   whose rows it has
 * @param changeBytes
 *   [[Manifest.ChangeBytes]] at that version: bytes of the changes that the base replaces
 */
final private[maintain] case class Base(version: Long, changeBytes: Long, files: Seq[BlockFile]) {
  def ref(manifest: Long): BaseRef = BaseRef(version, manifest)
}

/**
 * Decides when a base is written, and writes it.
 *
 * The query that maintains an arrangement writes bases in the background ([[BaseInBackground]]), so
 * the cost of a batch depends on its changes and not on the number of rows. A batch writes the base
 * if the background cannot keep up, or if the query ends by itself.
 */
private[maintain] object Base {

  /** With fewer bytes of changes, a base does not pay off. */
  val Smallest: Long = 1L << 20

  /** How many bytes can be read while the manifest and the file of a version are opened. */
  private val VersionBytes = 1L << 20

  /** This many versions are retained anyway, and reading fewer is cheap. */
  private val FewVersions = 100L

  /** A base that is overdue by this factor is written by a batch. */
  private val Overdue = 2L

  /**
   * A base costs as much as all rows and saves reading the changes since the last base. So it is
   * written when reading these changes would cost more than half of it: because of their bytes, or
   * because there are many versions, however small.
   */
  def isNeeded(at: Manifest): Boolean = costs(at, more = 1)

  /**
   * Whether a batch writes a base. The manifest before it decides, so a retry decides the same.
   *
   * @param endsByItself
   *   the query ends once it has processed what is available
   */
  def isDueInBatch(before: Manifest, endsByItself: Boolean): Boolean =
    if (endsByItself) isNeeded(before)
    // Even if the first versions load many rows, the background base must get time to finish.
    else (before.bases.nonEmpty || before.version >= FewVersions) && costs(before, more = Overdue)

  private def costs(at: Manifest, more: Long): Boolean = {
    def bytes(name: String) = at.counts.getOrElse(name, 0L)
    val versions = at.version - at.bases.lastOption.fold(-1L)(_.version)
    val opening = if (versions <= FewVersions) 0L else versions * VersionBytes
    math.max(bytes(Manifest.ChangeBytes), opening) > more * math.max(bytes(Manifest.BaseBytes) / 2, Smallest)
  }

  /** The file of a task with its part of the base of a version. */
  def file(root: Path, version: Long, partition: Int, run: UUID, hadoopConf: Configuration): BlockFileWriter =
    new BlockFileWriter(
      root,
      s"${ArrangementFolder.Bases}/${BaseRef.folder(version)}",
      partition,
      run,
      hadoopConf
    )

  /**
   * Writes the rows of one partition, by each key, and the deletions.
   *
   * @param indexAt
   *   an index of the partition at the version
   */
  def write(arrangement: ArrangementRef, version: Long, partition: Int, to: BlockWriter)(
      indexAt: (ArrangementRef, Int) => KeyIndex
  ): Unit = {
    val byKey = arrangement.meta.keys.indices.map(arrangement -> _)
    (byKey ++ DeletedKeys.indexOf(arrangement)).foreach { case (of, index) =>
      val number = of.meta.number(index)
      indexAt(of, index).rowsOf(version).foreach { case (row, count) =>
        to.add(number, partition, row, count)
      }
    }
  }
}
