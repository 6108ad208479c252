package org.apache.spark.sql.streamjoin.arrangement

import java.util.{Collections, UUID, WeakHashMap}

import scala.collection.mutable

import org.apache.spark.sql.execution.streaming.runtime.{MicroBatchExecution, MicroBatchExecutionContext}
import org.apache.spark.sql.streamjoin.base.{RunningQuery, StreamJoinErrors}

/**
 * Which versions of an arrangement the batches of a run see, one a batch, however many streams of
 * the query read it: a join of an arrangement with itself would else show rows that never were
 * there
 * together.
 *
 * {{{
 *   trigger:   1           2           3
 *   stream a:  asks: 7     asks: 9     asks: 9
 *   stream b:  asks: 7     asks: 9     asks: 9    though 10 has come between a and b
 * }}}
 *
 * Spark asks each stream once for each batch (`MicroBatchExecution.constructNextBatch`). The first
 * one looks for the newest version, and the others get the same; one that asks again begins the
 * next
 * batch.
 */
final private[streamjoin] class RunVersions(arrangement: ArrangementRef, folder: ArrangementFolder) {
  private val streams = mutable.ArrayBuffer.empty[ArrangementStream]
  private val asked = mutable.Set.empty[ArrangementStream]
  private var found = -1L
  private var until: Option[Long] = None

  def add(stream: ArrangementStream): Unit = streams += stream

  def all: Seq[ArrangementStream] = streams.toSeq

  /** As of the last look. */
  def newest: Long = found

  /** A run that takes what is there when it begins. */
  def stopAtNewest(): Unit = if (until.isEmpty) until = Some(look())

  /** The newest version that a stream may come to in the batch for which it asks. */
  def last(stream: ArrangementStream): Long = {
    if (asked.isEmpty || asked(stream)) {
      asked.clear()
      look(): Unit
    }
    asked += stream
    until.fold(found)(math.min(_, found))
  }

  /** The next version's file is looked for; folders are not listed in every poll. */
  def look(): Long = {
    // Before the first version.
    if (found < 0) found = folder.newest
    else {
      val before = found
      while (folder.hasVersion(found + 1)) found += 1
      val isThere = found > before || folder.hasVersion(found)
      // Versions that come or go may be the work of another arrangement in place of this one.
      if (found > before || !isThere) checkIsSame(ArrangementOptions.open(folder.root).meta.id)
      // Those that come next have gone, because nobody has asked for long.
      if (!isThere) found = math.max(found, folder.newest)
    }
    found
  }

  /** Versions of another arrangement say nothing about this one. */
  def checkIsSame(id: UUID): Unit =
    if (id != arrangement.meta.id)
      throw StreamJoinErrors.analysis("STREAMJOIN_ARRANGEMENT_REPLACED", "arrangement" -> arrangement.root)
}

private[streamjoin] object RunVersions {
  private val runs =
    Collections.synchronizedMap(
      new WeakHashMap[MicroBatchExecution, mutable.Map[(String, UUID), RunVersions]]
    )

  /** Those of the run for which this thread makes its sources, or of one stream alone. */
  def of(arrangement: ArrangementRef, folder: ArrangementFolder): RunVersions =
    RunningQuery.current.fold(new RunVersions(arrangement, folder)) { query =>
      val ofRun = runs.computeIfAbsent(query, _ => mutable.Map.empty)
      ofRun.getOrElseUpdate(
        (arrangement.root, arrangement.meta.id),
        new RunVersions(arrangement, folder)
      )
    }

  /** Where a stream of the query of this thread begins its next batch. */
  def startOf(stream: ArrangementStream): Snapshot =
    RunningQuery.current
      .flatMap(query => Option(query.getLatestExecutionContext()))
      .collect { case batch: MicroBatchExecutionContext => batch.startOffsets.get(stream) }
      .flatten
      .fold(Snapshot.Nothing)(Snapshot.of(_))
}
