package org.apache.spark.sql.streamjoin.state

import scala.collection.mutable

/**
 * The numbers of buckets, of several widths. A bucket of level 0 is as wide as its input asks for,
 * one of each level above it as four of those below:
 *
 * {{{
 *   level 2   |               0               |
 *   level 1   |   0   |   1   |   2   |   3   |
 *   level 0   | 0 | 1 | 2 | 3 | 4 | ...
 * }}}
 *
 * The level is a part of the number; those of level 0 are just `time / width`.
 */
private[state] object Buckets {
  private val LevelAt = 57
  private val Half = 1L << (LevelAt - 1)

  /** Of a time, at level 0. Times so far out that no calendar has them are at the ends. */
  def of(time: Long, width: Long): Long =
    math.max(1L - Half, math.min(Half - 1L, Math.floorDiv(time, width)))

  /** Of a level. */
  def first(level: Int): Long = (level.toLong << LevelAt) - Half
  def last(level: Int): Long = first(level) + 2 * Half - 1

  def level(bucket: Long): Int = ((bucket + Half) >> LevelAt).toInt

  /** The bucket of the same or a higher level that a bucket lies in. */
  def raised(bucket: Long, to: Int): Long = {
    val from = level(bucket)
    (to.toLong << LevelAt) + ((bucket - (from.toLong << LevelAt)) >> (2 * (to - from)))
  }

  /** How long a bucket is, where one of level 0 has some width. */
  def span(bucket: Long, width: Long): Long = width << (2 * level(bucket))

  /** The highest level whose buckets a long can measure. */
  def highestLevel(width: Long): Int =
    math.max(0, (SpanBits - (64 - java.lang.Long.numberOfLeadingZeros(width))) / 2)

  private val SpanBits = 60
}

/**
 * The level of the buckets for the rows of a batch: the lowest one at which they lie in few. So the
 * values in the store, and the segments, of a history that spans years in one batch are in
 * proportion to its bytes, not to its span. It follows from the rows together, in whatever order
 * they come.
 */
final private[state] class BatchLevel(highest: Int) {
  private val buckets = mutable.HashSet.empty[Long]
  private var last = Long.MinValue
  private var current = 0

  def level: Int = current

  /** @param bucket of a row, at level 0 */
  def add(bucket: Long): Unit = if (bucket != last) {
    last = bucket
    buckets += Buckets.raised(bucket, current)
    while (buckets.size > BatchLevel.MostBuckets && current < highest) {
      current += 1
      val raised = buckets.map(Buckets.raised(_, current))
      buckets.clear()
      buckets ++= raised
    }
  }

  def clear(): Unit = {
    buckets.clear()
    last = Long.MinValue
    current = 0
  }
}

private object BatchLevel {
  private val MostBuckets = 64
}
