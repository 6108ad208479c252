package org.apache.spark.sql.streamjoin.state

import streamjoin.core.Watermark

/**
 * How wide the buckets are of rows that each carry the time by which they leave: a part of the time
 * for which the first rows stay. It is chosen in a batch that finds no rows of the input, from all
 * of the rows that it appends, and stored with them. So it does not depend on their order, and
 * stays until all of them have left.
 *
 * @param time
 *   position, among the times of a row, of the one from which its lifetime counts
 * @param delay
 *   how long a row stays after the end of its life, in microseconds
 * @param narrowest
 *   width of the narrowest buckets, in microseconds
 * @param widest
 *   width that buckets never exceed, in microseconds
 * @param parts
 *   number of buckets in the time for which half of the rows stay
 */
final private[streamjoin] case class LifetimeWidth(
    time: Int,
    delay: Long,
    narrowest: Long,
    widest: Long,
    parts: Int
) {

  /** How many levels above the narrowest the buckets are that suit a lifetime best. */
  private[state] def level(lifetime: Long): Int = {
    val wanted = math.min(widest, Watermark.postponed(lifetime, -delay) / parts)
    var level = 0
    while (narrowest << (2 * level + 1) <= wanted) level += 1
    level
  }
}

/** The lifetimes of the rows of a batch, to the next power of two. */
final private[state] class Lifetimes(layout: RowLayout, of: LifetimeWidth) {
  private val counts = new Array[Long](64)

  def add(base: AnyRef, row: Long): Unit = {
    val lifetime = Watermark.postponed(layout.expiryTime(base, row, 0), layout.time(base, row, of.time))
    counts(64 - java.lang.Long.numberOfLeadingZeros(math.max(0L, lifetime))) += 1
  }

  /** The level for the median of the lifetimes; 0 if there are none. */
  def level: Int = {
    val half = (counts.sum + 1) / 2
    val upTo = counts.scanLeft(0L)(_ + _).tail
    if (half == 0) 0 else of.level((1L << upTo.indexWhere(_ >= half)) - 1)
  }
}
