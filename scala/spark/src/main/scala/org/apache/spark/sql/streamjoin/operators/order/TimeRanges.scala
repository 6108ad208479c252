package org.apache.spark.sql.streamjoin.operators.order

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.types.{IntegerType, LongType, TimestampType}

import streamjoin.core.Watermark

/**
 * The time that a batch lets go of, in as many parts as there are tasks to sort it. It is known on
 * the driver, so nothing has to be sampled.
 *
 * @param from
 *   the watermark of the order in the batch before, in microseconds; undefined in the first batches,
 *   when all rows are one task's
 * @param to
 *   its watermark in this batch
 */
final private[order] case class TimeRanges(from: Long, to: Long, tasks: Int) {
  private val isKnown = from != Watermark.Undefined && to != Watermark.Undefined && to > from

  /** How many of the tasks have a part. */
  val parts: Int = if (isKnown) tasks else 1

  /** How much each has, in microseconds, so that all of them have all. */
  private val width: Long = if (isKnown) (to - from) / parts + 1 else 1

  /** The number of the part that a time is in. A row without a time comes first. */
  def part(time: Attribute): Expression =
    if (parts == 1) Literal(0)
    else {
      val micros = PreciseTimestampConversion(time, TimestampType, LongType)
      val since = Subtract(Greatest(Seq(micros, Literal(from))), Literal(from))
      val part = Least(Seq(IntegralDivide(since, Literal(width)), Literal(parts - 1L)))
      Coalesce(Seq(Cast(part, IntegerType), Literal(0)))
    }
}
