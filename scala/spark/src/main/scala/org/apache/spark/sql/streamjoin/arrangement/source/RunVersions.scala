package org.apache.spark.sql.streamjoin.arrangement.source

import java.util.{Collections, UUID, WeakHashMap}

import scala.collection.mutable

import org.apache.spark.sql.execution.streaming.runtime.{MicroBatchExecution, MicroBatchExecutionContext}
import org.apache.spark.sql.streamjoin.arrangement.index.ArrangementRef
import org.apache.spark.sql.streamjoin.arrangement.storage.{ArrangementFolder, Restored, Snapshot, VersionId}
import org.apache.spark.sql.streamjoin.base.{RunningQuery, StreamJoinErrors}

/**
 * The versions of an arrangement that the batches of a run see: one per batch, no matter how many
 * streams of the query read it. Otherwise a join of an arrangement with itself would emit rows that
 * never existed together.
 *
 * {{{
 *   trigger:   1           2           3
 *   stream a:  gets 7      gets 9      gets 9
 *   stream b:  gets 7      gets 9      gets 9     although 10 was written between a and b
 * }}}
 *
 * Spark asks each stream once per batch (`MicroBatchExecution.constructNextBatch`). The first
 * stream looks up the newest version, and the others get the same one. A stream that asks a second
 * time starts the next batch.
 */
final private[streamjoin] class RunVersions(arrangement: ArrangementRef, folder: ArrangementFolder) {
  import RunVersions._

  private val streams = mutable.ArrayBuffer.empty[ArrangementStream]
  private val asked = mutable.Set.empty[ArrangementStream]
  private var found = Option.empty[Found]
  private var until: Option[Long] = None

  def add(stream: ArrangementStream): Unit = streams += stream

  def all: Seq[ArrangementStream] = streams.toSeq

  /** The newest version when it was last checked. */
  def newest: Long = found.fold(-1L)(_.version.number)

  /** For a run that reads only what exists when it starts. */
  def stopAtNewest(): Unit = if (until.isEmpty) until = Some(look())

  /** The newest version that a stream may reach in the batch that it asks for. */
  def last(stream: ArrangementStream): Long = {
    if (asked.isEmpty || asked(stream)) {
      asked.clear()
      look(): Unit
    }
    asked += stream
    until.fold(newest)(math.min(_, newest))
  }

  /** Looks for the file of the next version, so that not every poll lists the folder. */
  def look(): Long = {
    val isUnchanged = found.exists(of => folder.stampOf(of.version.number).contains(of.stamp))
    if (!isUnchanged) found.foreach(of => checkIsThere(of.version))
    val now = if (isUnchanged) folder.newestAfter(newest) else folder.newest
    if (now >= 0 && (!isUnchanged || now != newest)) {
      // The version may belong to an arrangement that replaced this one.
      checkIsSame()
      val manifest = folder.manifest(now)
      for (
        of <- found; before <- manifest.previous if of.version.number == now - 1 && of.version.id != before
      )
        throw Restored.ofReader(arrangement.root, of.version.number, now)
      note(manifest.versionId)
      found = folder.stampOf(now).map(Found(manifest.versionId, _))
    }
    newest
  }

  /** The newest version existed; it may have become too old, but it has not been replaced. */
  private def checkIsThere(version: VersionId): Unit = {
    checkIsSame()
    known.clear()
    val isOther = folder.manifestOf(version.number).map(_.id != version.id)
    val newest = folder.newest
    if (isOther.getOrElse(newest < version.number))
      throw Restored.ofReader(arrangement.root, version.number, newest)
  }

  /** The version with a number. */
  def idOf(number: Long): VersionId =
    found.map(_.version).filter(_.number == number).getOrElse(VersionId(number, check(number, None)))

  /** Versions that are known to belong to the arrangement. */
  private val known = mutable.LinkedHashMap.empty[Long, UUID]

  private def note(version: VersionId): Unit = {
    known.put(version.number, version.id)
    while (known.size > KeptIds) known -= known.head._1
  }

  /**
   * A recorded snapshot, with the id of its version.
   *
   * @throws org.apache.spark.sql.AnalysisException
   *   if it belongs to another arrangement, or to a version that no longer exists
   */
  def checked(seen: Snapshot): Snapshot = {
    seen.arrangement.foreach(checkIsSame)
    if (seen.isEmpty) seen else seen.copy(id = Some(check(seen.version, seen.id)))
  }

  /** The id of a version, which must equal the recorded one, if there is one. */
  private def check(number: Long, recorded: Option[UUID]): UUID =
    known.get(number).filter(id => recorded.forall(_ == id)).getOrElse {
      folder.manifestOf(number) match {
        case Some(manifest) if recorded.forall(_ == manifest.id) =>
          note(manifest.versionId)
          manifest.id
        case missing =>
          checkIsSame()
          val newest = folder.newest
          if (missing.isDefined || newest < number) throw Restored.ofReader(arrangement.root, number, newest)
          // It is too old to be kept.
          folder
            .manifest(newest)
            .checkRetains(number, arrangement.root, StreamJoinErrors.analysis(_, _: _*))
          recorded.getOrElse(throw folder.missing(number))
      }
    }

  private def checkIsSame(): Unit = checkIsSame(ArrangementFolder.open(folder.root).meta.id)

  /** Fails for another arrangement, whose versions are meaningless here. */
  def checkIsSame(id: UUID): Unit =
    if (id != arrangement.meta.id)
      throw StreamJoinErrors.analysis("STREAMJOIN_ARRANGEMENT_REPLACED", "arrangement" -> arrangement.root)
}

private[streamjoin] object RunVersions {
  private val KeptIds = 64

  /** The newest version when it was last checked, and when its manifest was written. */
  final private case class Found(version: VersionId, stamp: (Long, Long))

  private val runs =
    Collections.synchronizedMap(
      new WeakHashMap[MicroBatchExecution, mutable.Map[(String, UUID), RunVersions]]
    )

  /** The versions of the run whose sources this thread creates, or those of a single stream. */
  def of(arrangement: ArrangementRef, folder: ArrangementFolder): RunVersions =
    RunningQuery.current.fold(new RunVersions(arrangement, folder)) { query =>
      val ofRun = runs.computeIfAbsent(query, _ => mutable.Map.empty)
      ofRun.getOrElseUpdate(
        (arrangement.root, arrangement.meta.id),
        new RunVersions(arrangement, folder)
      )
    }

  /** The snapshot from which a stream of this thread's query begins its next batch. */
  def startOf(stream: ArrangementStream): Snapshot =
    RunningQuery.current
      .flatMap(query => Option(query.getLatestExecutionContext()))
      .collect { case batch: MicroBatchExecutionContext => batch.startOffsets.get(stream) }
      .flatten
      .fold(Snapshot.Nothing)(Snapshot.of(_))
}
