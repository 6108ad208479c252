package org.apache.spark.sql.streamjoin.arrangement

import scala.util.control.NonFatal

import org.apache.spark.internal.Logging

/** A run of the query that maintains an arrangement, in its driver. */
final private[streamjoin] class MaintainingRun extends Logging {

  /** The version at which it has begun, or -1. */
  private var begun: Option[Long] = None
  private var hasCommitted = false
  private var hasSaid = false

  /** The newest version that this run has written, or found when it did a batch again. */
  @volatile private var newest: Option[Manifest] = None
  def written: Option[Manifest] = newest

  /** What the run before said of the sources may be long out of date. */
  def begin(folder: ArrangementFolder): Unit = {
    CaughtUp.removeUnfinished(folder)
    val version = folder.newest
    begun = Some(version)
    if (version >= 0) CaughtUp.write(folder, CaughtUp(version, isSo = false))
  }

  def commit(manifest: Manifest): Unit = {
    newest = Some(manifest)
    hasCommitted = true
    // A version that was there before has been taken back.
    hasSaid = manifest.tookAll && begun.exists(_ < manifest.version)
  }

  /**
   * A trigger without a batch: the sources had nothing more
   * (`ProgressContext.finishNoExecutionTrigger`).
   */
  def endTrigger(folder: => ArrangementFolder): Unit =
    if (hasCommitted) hasCommitted = false
    else if (begun.isDefined && !hasSaid)
      try {
        val of = folder
        CaughtUp.write(of, CaughtUp(newest.fold(of.newest)(_.version), isSo = true))
        hasSaid = true
      } catch { case NonFatal(error) => logWarning("It could not be noted that it has caught up", error) }
}
