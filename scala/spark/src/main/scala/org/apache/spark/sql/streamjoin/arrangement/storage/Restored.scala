package org.apache.spark.sql.streamjoin.arrangement.storage

import java.time.Instant

import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.streamjoin.base.{StreamJoinErrors, StreamJoinRuntimeException}

/**
 * The errors for a remembered version that is missing, or that has been replaced by another one.
 */
private[streamjoin] object Restored {

  /**
   * A query continues an arrangement that lacks some of the query's versions.
   *
   * @param committed
   *   last batch that the checkpoint has committed
   */
  def arrangement(
      arrangement: String,
      checkpoint: String,
      committed: Long,
      newest: Long
  ): AnalysisException = StreamJoinErrors.analysis(
    "STREAMJOIN_ARRANGEMENT_RESTORED.ARRANGEMENT",
    "arrangement" -> arrangement,
    "checkpoint" -> checkpoint,
    "batch" -> committed.toString,
    "found" -> found(committed, newest)
  )

  /** A query continues an arrangement that has more versions than the query has written. */
  def checkpoint(arrangement: String, checkpoint: String, next: Long, newest: Long): AnalysisException =
    StreamJoinErrors.analysis(
      "STREAMJOIN_ARRANGEMENT_RESTORED.CHECKPOINT",
      "arrangement" -> arrangement,
      "checkpoint" -> checkpoint,
      "batch" -> next.toString,
      "version" -> newest.toString
    )

  /** Another batch with its number has written a version. */
  def otherBatch(
      arrangement: String,
      version: Long,
      wrote: BatchOffsets,
      now: BatchOffsets
  ): AnalysisException = {
    def inWords(of: BatchOffsets) = of.offsets.mkString(", ")
    StreamJoinErrors.analysis(
      "STREAMJOIN_ARRANGEMENT_RESTORED.BATCH",
      "arrangement" -> arrangement,
      "version" -> version.toString,
      "wroteAt" -> Instant.ofEpochMilli(wrote.timeMs).toString,
      "wrote" -> inWords(wrote),
      "nowAt" -> Instant.ofEpochMilli(now.timeMs).toString,
      "now" -> inWords(now)
    )
  }

  /** On the driver: a query has read a version. */
  def ofReader(arrangement: String, version: Long, newest: Long): AnalysisException =
    StreamJoinErrors.analysis(
      "STREAMJOIN_ARRANGEMENT_RESTORED.READER",
      parameters(arrangement, version, newest): _*
    )

  /** In a task: a query has read a version. */
  def inTask(arrangement: String, version: Long, newest: Long): StreamJoinRuntimeException =
    StreamJoinErrors.runtime(
      "STREAMJOIN_ARRANGEMENT_RESTORED.READER",
      parameters(arrangement, version, newest): _*
    )

  private def parameters(arrangement: String, version: Long, newest: Long) =
    Seq("arrangement" -> arrangement, "version" -> version.toString, "found" -> found(version, newest))

  private def found(version: Long, newest: Long) =
    if (newest < 0) "there is no version"
    else if (newest < version) s"the newest version is $newest"
    else "another version has that number"
}
