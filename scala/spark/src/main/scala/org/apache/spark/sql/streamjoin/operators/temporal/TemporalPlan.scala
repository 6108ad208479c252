package org.apache.spark.sql.streamjoin.operators.temporal

import org.apache.spark.sql.streamjoin.analysis.AwaitedKeys
import org.apache.spark.sql.streamjoin.watermark.ColumnWatermark

import streamjoin.core.{AsOf, JoinType}

/**
 * What a temporal join does, as data: worked out once, by analysis.
 *
 * Watermark key 0 is the time of the left input, 1 that of the right one; then come the other
 * event-time columns, which the join hands on.
 *
 * @param watermarks
 *   of the first two keys, as they are received
 * @param behind
 *   by watermark key: by how many microseconds at most a row's time is behind that of its left row;
 *   none where that is not known
 * @param keys
 *   the equalities as text, the same in every run
 * @param condition
 *   what a pair has to satisfy besides, likewise
 */
final private[streamjoin] case class TemporalPlan(
    ordinal: Int,
    rule: AsOf,
    watermarks: IndexedSeq[ColumnWatermark],
    behind: IndexedSeq[Option[Long]],
    isLeftOuter: Boolean,
    keys: String,
    condition: String,
    awaited: AwaitedKeys = AwaitedKeys.none
) {

  /** Rows of the left input before this time have met all that they can meet ([[AsOf.settled]]). */
  val settled: ColumnWatermark =
    ColumnWatermark.Smallest(Seq(watermarks(0), ColumnWatermark.Shifted(-rule.ahead, watermarks(1))))

  /** Rows come out in the order of the left time, or no further back than the history. */
  def outputWatermark(key: Int): ColumnWatermark = {
    val out = if (rule.history == 0) settled else ColumnWatermark.Shifted(-rule.history, settled)
    ColumnWatermark.ofOrder(out, behind, key, ordinal)
  }

  def outputWatermarksForSpark: Seq[ColumnWatermark] = awaited.forSpark(Seq(0), outputWatermark)

  /** As Spark has it. */
  def joinType: String = (if (isLeftOuter) JoinType.LeftOuter else JoinType.Inner).name

  override def hashCode: Int = ordinal

  /** For Spark's texts of logical plans. */
  override def toString: String = s"join ${ordinal + 1}"
}
