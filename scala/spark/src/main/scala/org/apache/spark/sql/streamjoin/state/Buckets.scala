package org.apache.spark.sql.streamjoin.state

import scala.collection.mutable

/**
 * The numbers of buckets, which have several widths. The input determines the width of a level-0
 * bucket; a bucket of each higher level spans four of the level below:
 *
 * {{{
 *   level 2   |               0               |
 *   level 1   |   0   |   1   |   2   |   3   |
 *   level 0   | 0 | 1 | 2 | 3 | 4 | ...
 * }}}
 *
 * The level is a part of the number; at level 0, the number is just `time / width`.
 */
private[state] object Buckets {
  private val LevelAt = 57
  private val Half = 1L << (LevelAt - 1)

  /** The level-0 bucket of a time. Times beyond any calendar fall into the outermost buckets. */
  def of(time: Long, width: Long): Long =
    math.max(1L - Half, math.min(Half - 1L, Math.floorDiv(time, width)))

  /** The first and the last bucket of a level. */
  def first(level: Int): Long = (level.toLong << LevelAt) - Half
  def last(level: Int): Long = first(level) + 2 * Half - 1

  def level(bucket: Long): Int = ((bucket + Half) >> LevelAt).toInt

  /** The bucket of this or a higher level that contains a bucket. */
  def raised(bucket: Long, to: Int): Long = {
    val from = level(bucket)
    (to.toLong << LevelAt) + ((bucket - (from.toLong << LevelAt)) >> (2 * (to - from)))
  }

  /** The number of the same bucket if a higher level were level 0. */
  def lowered(bucket: Long, by: Int): Long = bucket - (by.toLong << LevelAt)

  /** Width of a bucket, given that of level 0. */
  def span(bucket: Long, width: Long): Long = width << (2 * level(bucket))

  /** The highest level whose buckets a long can measure. */
  def highestLevel(width: Long): Int =
    math.max(0, (SpanBits - (64 - java.lang.Long.numberOfLeadingZeros(width))) / 2)

  private val SpanBits = 60
}

/**
 * The bucket level for the rows of a batch: the lowest one at which they fall into few buckets. So
 * a batch with a history of years has a number of segments, and of values in the store, that
 * depends on its bytes, not on its span. The level depends on the set of rows, not on their order.
 */
final private[state] class BatchLevel(highest: Int) {

  /** The keys are the buckets. Other than a set, this map does not box them. */
  private val buckets = mutable.LongMap.empty[Unit]
  private var last = Long.MinValue
  private var current = 0

  def level: Int = current

  /** @param bucket level-0 bucket of a row */
  def add(bucket: Long): Unit = if (bucket != last) {
    last = bucket
    buckets(Buckets.raised(bucket, current)) = ()
    while (buckets.size > BatchLevel.MostBuckets && current < highest) {
      current += 1
      val lower = buckets.keys.toArray
      buckets.clear()
      lower.foreach(bucket => buckets(Buckets.raised(bucket, current)) = ())
    }
  }

  /** Sets the level for good: the batch gets no more rows. */
  def raiseTo(level: Int): Unit = {
    clear()
    current = level
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
