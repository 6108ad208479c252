package org.apache.spark.sql.streamjoin.operators.order

import org.apache.spark.sql.streamjoin.analysis.AwaitedKeys
import org.apache.spark.sql.streamjoin.plans.FirstPartitions
import org.apache.spark.sql.streamjoin.watermark.{ColumnWatermark, WatermarkValues}

import streamjoin.core.Watermark

/**
 * What an order of rows does, as data: worked out once, by analysis.
 *
 * The law of a window join: a row that has not been emitted yet has a rowtime of at least the
 * smallest of
 *   - the watermarks of both inputs, for a row that is still to come, or that leaves without a
 *     match;
 *   - where the rowtime is the time of the earlier row of a pair, the times of those that the join
 *     keeps ([[Center]]).
 *
 * By the watermarks alone the join would say less of these: its own output watermark counts a row
 * as kept until it expires, whether there is one or not.
 *
 * @param time
 *   the watermark of the rowtime in the input
 * @param behind
 *   by watermark key: by how many microseconds at most a row's time is behind its rowtime; none
 *   where that is not known
 * @param span
 *   for how long rows wait, beside the delays of the watermarks, in microseconds
 * @param below
 *   the partitions of an operator of ours right below, in which the rows can stay
 */
final private[streamjoin] case class OrderPlan(
    ordinal: Int,
    time: ColumnWatermark,
    center: Option[OrderPlan.Center],
    behind: IndexedSeq[Option[Long]],
    span: Long,
    below: Option[FirstPartitions],
    awaited: AwaitedKeys = AwaitedKeys.none
) {

  def outputWatermark(key: Int): ColumnWatermark = ColumnWatermark.ofOrder(time, behind, key, ordinal)

  override def hashCode: Int = ordinal

  /** For Spark's texts of logical plans. */
  override def toString: String = s"order ${ordinal + 1}"
}

private[streamjoin] object OrderPlan {

  /**
   * The event-time column of the window join below that is the rowtime.
   *
   * @param join
   *   the ordinal of the join
   * @param key
   *   of the column in the join
   * @param own
   *   its watermark as the join receives it
   * @param reached
   *   those of all columns of the join's bounds
   */
  final case class Center(join: Int, key: Int, own: ColumnWatermark, reached: Seq[ColumnWatermark]) {

    /**
     * The earliest rowtime that may still come after a batch, in microseconds.
     *
     * @param next
     *   the watermarks of the next batch
     * @param late
     *   those against which its rows are late: a new row may have a time as low as that
     * @param kept
     *   the lowest time that the join keeps
     */
    def earliest(next: WatermarkValues, late: WatermarkValues, kept: Option[Long]): Option[Long] = {
      val known = reached.map(_.value(next)) :+ own.value(late)
      Option.unless(known.contains(Watermark.Undefined))((known ++ kept).min)
    }
  }
}
