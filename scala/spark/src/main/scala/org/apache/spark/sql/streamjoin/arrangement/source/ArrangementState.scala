package org.apache.spark.sql.streamjoin.arrangement.source

import java.io.FileNotFoundException
import java.util.UUID

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.streamjoin.arrangement.maintain.ArrangeTask
import org.apache.spark.sql.streamjoin.arrangement.storage.{
  ArrangementFolder,
  ArrangementMeta,
  LeaseFiles,
  Manifest
}
import org.apache.spark.sql.streamjoin.base.UnreadMessages
import org.apache.spark.sql.streamjoin.time.DurationText

/**
 * A reader of an arrangement.
 *
 * @param name
 *   name of its query, if that has one
 * @param id
 *   a short id, which is stable for a source of a checkpoint
 * @param version
 *   version up to which it has read
 * @param versionsBehind
 *   number of newer versions
 * @param sinceMs
 *   when it reached that version, in milliseconds since the epoch
 */
final private[streamjoin] case class Reader(
    name: Option[String],
    id: String,
    version: Long,
    versionsBehind: Long,
    sinceMs: Long
) {

  /** For messages. */
  def title: String = name.fold(id)(name => s"$name ($id)")
}

/**
 * The current state of an arrangement.
 *
 * @param versions
 *   the oldest readable version and the newest; none before the first
 * @param rows
 *   number of rows in the newest version, counting copies
 * @param bytes
 *   size of the files that the newest version needs: the newest base and all later changes
 * @param queryId
 *   the query that maintains it, once it has written a version
 * @param readers
 *   readers with a lease, the slowest first
 * @param unread
 *   number of empty messages, if there are many and all messages are empty
 */
final private[streamjoin] case class ArrangementState(
    root: Path,
    meta: ArrangementMeta,
    versions: Option[(Long, Long)],
    rows: Long,
    bytes: Long,
    queryId: Option[UUID],
    readers: Seq[Reader],
    unread: Option[Long]
) {

  /**
   * Warnings about readers that hold versions without reading, and about empty messages, each with
   * what to write.
   *
   * @param now
   *   in milliseconds
   * @param kept
   *   number of versions that are kept anyway
   */
  def hints(now: Long, kept: Long): Seq[String] = readers
    .filter(reader => reader.versionsBehind > kept && now - reader.sinceMs >= ArrangementState.Silence)
    .map { reader =>
      s"The reader ${reader.title} has been absent for ${DurationText.roughly(now - reader.sinceMs)}, and " +
        s"${reader.versionsBehind} versions are kept for it. If it will not return, write " +
        s"sj.arrangement(\"${root.getName}\").release(\"${reader.id}\")."
    } ++ unread.map(UnreadMessages.ofTable)
}

private[streamjoin] object ArrangementState {

  /** A reader that has read since then is at most slow, in milliseconds. */
  private val Silence = 60000L

  /** @throws org.apache.spark.sql.AnalysisException if there is no arrangement */
  def of(folder: ArrangementFolder): ArrangementState = {
    val newest = Option(folder.newest).filter(_ >= 0).map(folder.manifest)
    val meta = newest.fold(folder.meta)(folder.metaOf)
    val last = newest.fold(-1L)(_.version)
    val leases = new LeaseFiles(folder)
    val readers = leases.all.map { lease =>
      // A reader may already have read a version newer than the one found above.
      val behind = math.max(0, last - lease.version)
      Reader(leases.queryName(lease), LeaseFiles.id(lease.reader), lease.version, behind, lease.sinceMs)
    }
    ArrangementState(
      folder.root,
      meta,
      newest.map(manifest => (manifest.since, manifest.version)),
      newest.fold(0L)(_.counts.getOrElse(Manifest.Rows, 0L)),
      // As counted when they were written, so that no folder has to be listed.
      newest.fold(0L)(of => Seq(Manifest.BaseBytes, Manifest.ChangeBytes).flatMap(of.counts.get).sum),
      newest.map(_.queryId),
      readers.sortBy(reader => (reader.version, reader.name, reader.id)),
      newest.flatMap(manifest => ArrangeTask.unread(manifest.counts))
    )
  }

  /** The arrangements in a folder, ordered by name. */
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
