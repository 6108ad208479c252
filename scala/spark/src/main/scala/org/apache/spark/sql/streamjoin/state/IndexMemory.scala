package org.apache.spark.sql.streamjoin.state

/**
 * The bytes that the index of one task holds in memory, and the most that it should hold.
 *
 * The budget is kept between steps, not within them: a step needs the segment that it appends to, or the two that it
 * compares, in memory.
 */
final private[streamjoin] class IndexMemory(val budget: Long) {
  private var bytes = 0L

  def used: Long = bytes
  def add(change: Long): Unit = bytes += change
  def exceeded: Boolean = bytes > budget
}
