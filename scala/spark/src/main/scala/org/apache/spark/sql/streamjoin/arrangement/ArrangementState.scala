package org.apache.spark.sql.streamjoin.arrangement

import java.io.FileNotFoundException
import java.util.UUID

import org.apache.hadoop.fs.Path

/**
 * A reader of an arrangement.
 *
 * @param name
 *   the folder of its source in the checkpoint
 * @param version
 *   up to which it has read
 * @param versionsBehind
 *   how many there are after it
 * @param sinceMs
 *   when it came to that version, in milliseconds since the epoch
 */
final private[streamjoin] case class Reader(
    name: String,
    version: Long,
    versionsBehind: Long,
    sinceMs: Long
)

/**
 * An arrangement as it is now.
 *
 * @param versions
 *   the oldest one that can be read, and the newest; none before the first
 * @param rows
 *   of the newest version, copies counted
 * @param bytes
 *   of the files that the newest version needs: the newest base, and the changes after it
 * @param queryId
 *   of the query that maintains it, once it has written a version
 * @param readers
 *   those that hold versions back, the slowest first
 */
final private[streamjoin] case class ArrangementState(
    root: Path,
    meta: ArrangementMeta,
    versions: Option[(Long, Long)],
    rows: Long,
    bytes: Long,
    queryId: Option[UUID],
    readers: Seq[Reader]
)

private[streamjoin] object ArrangementState {

  /** @throws org.apache.spark.sql.AnalysisException where there is no arrangement */
  def of(folder: ArrangementFolder): ArrangementState = {
    val meta = folder.meta
    val newest = Option(folder.newest).filter(_ >= 0).map(folder.manifest)
    val last = newest.fold(-1L)(_.version)
    val readers = new Leases(folder).all.map { lease =>
      // A reader may have read a version that came after we looked.
      Reader(Leases.name(lease.reader), lease.version, math.max(0, last - lease.version), lease.sinceMs)
    }
    ArrangementState(
      folder.root,
      meta,
      newest.map(manifest => (manifest.since, manifest.version)),
      newest.fold(0L)(_.counts.getOrElse(Manifest.Rows, 0L)),
      // As they were counted when they were written: no folder is listed for them.
      newest.fold(0L)(of => Seq(Manifest.BaseBytes, Manifest.ChangeBytes).flatMap(of.counts.get).sum),
      newest.map(_.queryId),
      readers.sortBy(reader => (reader.version, reader.name))
    )
  }

  /** The arrangements in a folder, by their names. */
  def in(parent: ArrangementFolder): Seq[Path] = {
    val children =
      try parent.fs.listStatus(parent.root).toSeq
      catch { case _: FileNotFoundException => Nil }
    children
      .filter(child =>
        child.isDirectory && parent.fs.exists(new Path(child.getPath, ArrangementFolder.MetaFile))
      )
      .map(_.getPath)
      .sortBy(_.getName)
  }
}
