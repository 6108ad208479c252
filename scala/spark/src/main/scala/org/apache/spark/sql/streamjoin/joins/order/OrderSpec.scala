package org.apache.spark.sql.streamjoin.joins.order

import org.apache.spark.sql.streamjoin.analysis.{AwaitedKeys, OperatorSpec}
import org.apache.spark.sql.streamjoin.plans.FirstPartitions
import org.apache.spark.sql.streamjoin.watermark.{ColumnWatermark, WatermarkValues}

import streamjoin.core.{TimeBound, Watermark}

/**
 * The plan of an order, as data: computed once, by analysis.
 *
 * The law of a window join: a row that has not been emitted yet has a rowtime of at least the
 * smallest of
 *   - the watermarks of both inputs, for a row that has not arrived yet or that expires without a
 *     match;
 *   - if the rowtime is that of the earlier row of a pair, the times of the rows that the join
 *     keeps ([[Center]]).
 *
 * The join's output watermark alone is a weaker bound: it assumes that the join keeps a row that is
 * about to expire, even if its state is empty.
 *
 * @param time
 *   watermark of the rowtime in the input
 * @param maxLagMicros
 *   by watermark key, the largest distance of a row's time behind its rowtime, in microseconds;
 *   none if unknown
 * @param span
 *   how long rows wait, in addition to the delays of the watermarks, in microseconds
 * @param below
 *   our operator right below, in whose partitions the rows can stay
 */
final private[streamjoin] case class OrderSpec(
    ordinal: Int,
    time: ColumnWatermark,
    center: Option[OrderSpec.Center],
    maxLagMicros: IndexedSeq[Option[Long]],
    span: Long,
    below: Option[OrderSpec.Below],
    override val known: Seq[TimeBound],
    awaited: AwaitedKeys = AwaitedKeys.none
) extends OperatorSpec {

  override def watermarks: IndexedSeq[ColumnWatermark] = IndexedSeq(time)

  override def tasks: Option[FirstPartitions] =
    Some(below.fold[FirstPartitions](FirstPartitions.AsSet)(_.tasks))

  override protected def outputKeys: Seq[Int] = maxLagMicros.indices

  override protected def emittedKeys: Seq[Int] = outputKeys

  override def outputWatermark(key: Int): ColumnWatermark =
    ColumnWatermark.ofOrder(time, maxLagMicros, key, ordinal)
}

private[streamjoin] object OrderSpec {

  /**
   * @param tasks
   *   the number of its tasks while it is new
   */
  final case class Below(ordinal: Int, tasks: FirstPartitions)

  /**
   * The event-time column of the window join below that is the rowtime.
   *
   * @param join
   *   ordinal of the join
   * @param key
   *   watermark key of the column in the join
   * @param own
   *   watermark of the column as the join receives it
   * @param reached
   *   watermarks of both inputs
   */
  final case class Center(join: Int, key: Int, own: ColumnWatermark, reached: Seq[ColumnWatermark]) {

    /**
     * The earliest rowtime that may still arrive after a batch, in microseconds.
     *
     * @param next
     *   watermarks of the next batch
     * @param late
     *   watermarks against which its rows are late: a new row may have a time that low
     * @param kept
     *   lowest time that the join keeps
     */
    def earliest(next: WatermarkValues, late: WatermarkValues, kept: Option[Long]): Option[Long] = {
      val known = reached.map(_.value(next)) :+ own.value(late)
      Option.unless(known.contains(Watermark.Undefined))((known ++ kept).min)
    }
  }
}
