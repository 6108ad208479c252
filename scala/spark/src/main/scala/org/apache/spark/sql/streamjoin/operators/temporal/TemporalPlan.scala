package org.apache.spark.sql.streamjoin.operators.temporal

import org.apache.spark.sql.streamjoin.analysis.AwaitedKeys
import org.apache.spark.sql.streamjoin.watermark.ColumnWatermark

import streamjoin.core.AsOf

/**
 * What a temporal join does, as data: worked out once, by analysis.
 *
 * Watermark key 0 is the time of the left input, 1 that of the right one.
 *
 * @param watermarks
 *   by watermark key, as they are received
 */
final private[streamjoin] case class TemporalPlan(
    ordinal: Int,
    rule: AsOf,
    watermarks: IndexedSeq[ColumnWatermark],
    isLeftOuter: Boolean,
    awaited: AwaitedKeys = AwaitedKeys.none
) {

  /** Rows of the left input before this time have met all that they can meet ([[AsOf.settled]]). */
  val settled: ColumnWatermark =
    ColumnWatermark.Smallest(Seq(watermarks(0), ColumnWatermark.Shifted(-rule.ahead, watermarks(1))))

  /** Rows come out in the order of the left time; how far a row of the right input is behind it, the rule says. */
  def outputWatermark(key: Int): ColumnWatermark = {
    val known = key == 0 || rule.tolerance.isDefined
    val behind = if (key == 0) 0L else rule.tolerance.getOrElse(0L)
    new ColumnWatermark.OfOrder(
      watermarks.indices.map(k => if (k == 0 || known) settled else ColumnWatermark.Unknown),
      IndexedSeq(0L, behind),
      key,
      ordinal
    )
  }

  override def hashCode: Int = ordinal

  /** For Spark's texts of logical plans. */
  override def toString: String = s"join ${ordinal + 1}"
}
