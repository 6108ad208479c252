package org.apache.spark.sql.streamjoin.arrangement.maintain

import java.util.UUID

import scala.util.control.NonFatal

import org.apache.hadoop.fs.Path

import org.apache.spark.internal.Logging
import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.streamjoin.arrangement.storage.{
  ArrangementFolder,
  ArrangementMeta,
  BaseRef,
  CaughtUp,
  ChangedColumns,
  Claim,
  LeaseFiles,
  Manifest
}
import org.apache.spark.sql.streamjoin.base.StreamJoinErrors

/** A run of the query that maintains an arrangement, in its driver. */
final private[streamjoin] class MaintainingRun extends Logging {

  /** The newest version when the run started, or -1. */
  private var begun: Option[Long] = None
  private var own: Option[ArrangementMeta] = None
  private var found: Option[Manifest] = None
  private var hasCommitted = false
  private var hasSaid = false
  private var hasRemovedOld = false

  private var claim: Option[Claim] = None

  /** Files that earlier runs may have left, in the folders of this run's first versions. */
  private var left = Set.empty[String]
  private var leftManifests = Seq.empty[Path]

  /** The newest version that this run has written, or found when it retried a batch. */
  @volatile private var newest: Option[Manifest] = None
  def written: Option[Manifest] = newest

  /** Whether [[begin]] has been called. */
  def isBegun: Boolean = begun.isDefined

  /** The description of the files that the run writes. */
  def meta: ArrangementMeta = own.get

  /** Resets the state of the sources that the previous run recorded, which may be outdated. */
  def begin(folder: ArrangementFolder, meta: ArrangementMeta): Unit = {
    folder.removeUnfinished(CaughtUp.File, Claim.File)
    own = Some(meta)
    val version = folder.newest
    begun = Some(version)
    found = if (version < 0) None else Some(folder.manifest(version))
    found.foreach(manifest => CaughtUp.write(folder, CaughtUp(version, isSo = false, Some(manifest.id))))
    found.map(folder.metaOf).foreach(sayChanged(folder, _, meta))
    hasOtherBase = found.flatMap(_.bases.lastOption).exists { base =>
      !folder.manifestOf(base.manifest).map(folder.metaOf).forall(meta.isWrittenLike)
    }
  }

  private def sayChanged(folder: ArrangementFolder, before: ArrangementMeta, now: ArrangementMeta): Unit = {
    def words(of: ArrangementMeta) =
      s"${of.partitions} partitions, the columns ${ChangedColumns.words(of.schema)} and the keys ${of.keysInWords}"
    if (!now.isWrittenLike(before))
      logWarning(
        s"${folder.root} has ${words(now)} from its next version on. It had ${words(before)}. Queries that read it " +
          "continue."
      )
  }

  /**
   * Called before the first task of the run writes. A run that started earlier fails at its next
   * version.
   */
  def claim(folder: ArrangementFolder, wanted: Claim): Unit = if (claim.isEmpty) {
    val version = folder.newest
    if (version >= 0) ArrangementWrite.checkOwner(folder.root, folder.manifest(version), wanted.query)
    left = (version - 1 to version + 1).flatMap(folder.filesOf).map(_.getName).toSet
    leftManifests = folder.unfinishedManifests(version + 1)
    Claim.write(folder, wanted)
    claim = Some(wanted)
  }

  def run: Option[UUID] = claim.map(_.run)

  /** @throws org.apache.spark.sql.AnalysisException if another run has started after this one */
  def checkClaim(folder: ArrangementFolder, version: Long): Unit =
    for (own <- claim; other <- Claim.read(folder) if other != own)
      throw takenOver(folder, version, other.query, other.run.toString)

  /** The stored manifest must be the one that this run has written. */
  def checkWritten(folder: ArrangementFolder, manifest: Manifest): Unit =
    if (manifest.run != run) throw takenOver(folder, manifest)

  /** The last manifest that this run has found or written must be unchanged. */
  def checkUnchanged(folder: ArrangementFolder, manifest: Manifest): Unit =
    if (newest.orElse(found).exists(known => known.version == manifest.version && known != manifest))
      throw takenOver(folder, manifest)

  /**
   * The arrangement must be the one whose rows the tasks have read, at the version that they read.
   */
  def checkOrigin(folder: ArrangementFolder, origin: Origin, before: Option[Manifest]): Unit = {
    if (folder.meta.id != origin.arrangement)
      throw StreamJoinErrors.analysis(
        "STREAMJOIN_ARRANGEMENT_REPLACED",
        "arrangement" -> folder.root.toString
      )
    before.filterNot(manifest => origin.before.contains(manifest.id)).foreach { manifest =>
      throw takenOver(folder, manifest)
    }
  }

  private def takenOver(folder: ArrangementFolder, manifest: Manifest): AnalysisException =
    takenOver(folder, manifest.version, manifest.queryId, manifest.run.fold("unknown")(_.toString))

  private def takenOver(
      folder: ArrangementFolder,
      version: Long,
      query: UUID,
      run: String
  ): AnalysisException =
    StreamJoinErrors.analysis(
      "STREAMJOIN_ARRANGEMENT_TAKEN_OVER",
      "arrangement" -> folder.root.toString,
      "version" -> version.toString,
      "query" -> query.toString,
      "run" -> run
    )

  def commit(manifest: Manifest): Unit = {
    newest = Some(manifest)
    hasCommitted = true
    // begin() has reset what was recorded about a version that already existed.
    hasSaid = manifest.tookAll && begun.exists(_ < manifest.version)
  }

  /** Removes the files of failed attempts. */
  def removeOrphans(folder: ArrangementFolder, manifest: Manifest, before: Option[Manifest]): Unit = {
    val tag = run.map(ArrangementFolder.tag)
    // The previous version again: an abandoned task may have finished since.
    folder.removeOrphans((before ++ Some(manifest)).toSeq) { (version, name) =>
      tag.exists(ArrangementFolder.isOf(name, _)) || version < manifest.version && left(name)
    }
    // A driver that is still writing one can then no longer finish it.
    leftManifests.foreach(folder.fs.delete(_, false))
    leftManifests = Nil
  }

  /**
   * Removes the files of versions that can no longer be read, and bases that are not retained. The
   * first call lists all files; later calls remove only what has become too old, so that no batch
   * lists the folders.
   */
  def removeOld(folder: ArrangementFolder, manifest: Manifest, before: Option[Manifest]): Unit = {
    // The manifest of the base's own version stays, because that version can still be read.
    val needed = manifest.oldestNeeded
    val kept = manifest.bases.map(_.folder) ++ base.map(of => BaseRef.folder(of.version))
    val (old, bases) = before.filter(_ => hasRemovedOld) match {
      case Some(last) => (last.oldestNeeded until needed, last.bases.map(_.folder))
      case None =>
        (folder.versionNumbers.takeWhile(_ < needed), folder.baseNumbers)
    }
    // If a file cannot be removed, the next version tries again.
    hasRemovedOld = false
    folder.remove(old)
    folder.removeBases(bases.filter(_ >= needed).diff(kept))
    hasRemovedOld = true
  }

  // Leases.

  /** By reader: the oldest version that it needs, if it is one of this arrangement. */
  private var known = Map.empty[String, Long]

  /**
   * Whether a reader has read the version of its lease in this arrangement, and not before a
   * restore. If not, it may still reach this version.
   */
  def keepsFor(leases: LeaseFiles, lease: LeaseFiles.Lease): Boolean =
    known.get(lease.reader).contains(lease.version) || {
      val keeps = !leases.isOfOther(lease)
      if (keeps) known += lease.reader -> lease.version
      keeps
    }

  // The base that is being written.

  @volatile private var base: Option[BaseInBackground] = None

  /**
   * The newest base has other columns or another number of partitions. An index then has to convert
   * it, so a new base is written soon.
   */
  private var hasOtherBase = false
  def needsBase(at: Manifest): Boolean = hasOtherBase || Base.isNeeded(at)

  /** The version of the base that is being written. Its files must stay readable. */
  def baseVersion: Option[Long] = base.map(_.version)

  /** Starts writing a base, unless one is already being written. */
  def startBase(make: => BaseInBackground): Unit = if (base.isEmpty) {
    val made = make
    base = Some(made)
    made.start()
  }

  /** The base that has been written since the last call. */
  def takeBase(): Option[Base] = {
    val ended = base.flatMap(_.written)
    if (ended.isDefined) base = None
    val found = ended.flatMap(_.toOption)
    if (found.isDefined) hasOtherBase = false
    found
  }

  /** Called when a batch has written a base of a later version. */
  def cancelBase(): Unit = {
    hasOtherBase = false
    base.foreach(_.cancel())
    base = None
  }

  /** Waits until no base is being written. */
  private[streamjoin] def awaitBase(): Unit = base.foreach(_.await())

  /**
   * Called after a trigger. If it had no batch, the sources had no more data
   * (`ProgressContext.finishNoExecutionTrigger`).
   */
  def endTrigger(folder: => ArrangementFolder): Unit =
    if (hasCommitted) hasCommitted = false
    else if (begun.isDefined && !hasSaid)
      try {
        val of = folder
        val last = newest.orElse(found)
        CaughtUp.write(of, CaughtUp(last.fold(of.newest)(_.version), isSo = true, last.map(_.id)))
        hasSaid = true
      } catch {
        case NonFatal(error) => logWarning("It could not be recorded that the query has caught up", error)
      }
}
