package org.apache.spark.sql.streamjoin.arrangement.source

import java.util.{Collections, UUID, WeakHashMap}

import scala.collection.mutable

import org.apache.spark.sql.execution.streaming.runtime.{MicroBatchExecution, MicroBatchExecutionContext}
import org.apache.spark.sql.streamjoin.arrangement.index.ArrangementRef
import org.apache.spark.sql.streamjoin.arrangement.storage.{ArrangementFolder, Snapshot}
import org.apache.spark.sql.streamjoin.base.{RunningQuery, StreamJoinErrors}

/**
 * Which versions of an arrangement the batches of a run see: one per batch, however many streams of
 * the query read it. Otherwise a join of an arrangement with itself would show rows that never
 * existed together.
 *
 * {{{
 *   trigger:   1           2           3
 *   stream a:  gets 7      gets 9      gets 9
 *   stream b:  gets 7      gets 9      gets 9     although 10 was written between a and b
 * }}}
 *
 * Spark asks each stream once per batch (`MicroBatchExecution.constructNextBatch`). The first
 * stream looks up the newest version, and the others get the same; a stream that asks again begins
 * the next batch.
 */
final private[streamjoin] class RunVersions(arrangement: ArrangementRef, folder: ArrangementFolder) {
  private val streams = mutable.ArrayBuffer.empty[ArrangementStream]
  private val asked = mutable.Set.empty[ArrangementStream]
  private var found = -1L
  private var until: Option[Long] = None

  def add(stream: ArrangementStream): Unit = streams += stream

  def all: Seq[ArrangementStream] = streams.toSeq

  /** The newest version at the last look. */
  def newest: Long = found

  /** For a run that reads what exists when it begins. */
  def stopAtNewest(): Unit = if (until.isEmpty) until = Some(look())

  /** The newest version that a stream may reach in the batch for which it asks. */
  def last(stream: ArrangementStream): Long = {
    if (asked.isEmpty || asked(stream)) {
      asked.clear()
      look(): Unit
    }
    asked += stream
    until.fold(found)(math.min(_, found))
  }

  /** Looks for the file of the next version, so that not every poll lists the folder. */
  def look(): Long = {
    // Before the first version.
    if (found < 0) found = folder.newest
    else {
      val newest = folder.newestFrom(found)
      // A version that appears or disappears may belong to an arrangement that replaced this one.
      if (newest != found) checkIsSame(ArrangementFolder.open(folder.root).meta.id)
      found = math.max(found, newest)
    }
    found
  }

  /** Fails for another arrangement, whose versions mean nothing here. */
  def checkIsSame(id: UUID): Unit =
    if (id != arrangement.meta.id)
      throw StreamJoinErrors.analysis("STREAMJOIN_ARRANGEMENT_REPLACED", "arrangement" -> arrangement.root)
}

private[streamjoin] object RunVersions {
  private val runs =
    Collections.synchronizedMap(
      new WeakHashMap[MicroBatchExecution, mutable.Map[(String, UUID), RunVersions]]
    )

  /** The versions of the run whose sources this thread creates, or of a single stream. */
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
