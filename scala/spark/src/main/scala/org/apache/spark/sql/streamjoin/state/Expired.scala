package org.apache.spark.sql.streamjoin.state

import org.apache.spark.sql.catalyst.expressions.UnsafeRow

/**
 * Evicts the rows of a buffer with a time below its eviction limit; on request, returns those that
 * never matched.
 *
 * A segment whose rows have all expired is dropped as a whole, without being read if no rows are
 * requested.
 *
 * @param evictionLimits
 *   limits by expiring time, in microseconds; they never go back
 */
final private[streamjoin] class Expired(
    buffer: Buffer,
    evictionLimits: Array[Long],
    unmatched: Boolean,
    memory: IndexMemory,
    store: SegmentStore
) {

  /** A row that never matched; [[next]] overwrites it. */
  val row: UnsafeRow = new UnsafeRow(buffer.layout.fields)

  private val limits =
    evictionLimits.zip(buffer.evictedBelow).map { case (now, before) => math.max(now, before) }
  private val segments: Array[Segment] = buffer.segments.filter(mayExpire).toArray
  private var at = -1
  private var segment: Segment = _
  private var whole = false
  private var place = 0
  private var count = 0L
  private var ended = false

  /** Number of evicted rows. */
  def evicted: Long = count

  private def mayExpire(segment: Segment): Boolean =
    segment.live > 0 && limits.indices.exists(i => segment.lowest(i) < limits(i))

  private def isWhole(segment: Segment): Boolean =
    limits.indices.exists(i => segment.highest(i) < limits(i))

  /** Advances to the next row that never matched, if there is one and `unmatched` is set. */
  def next(): Boolean = {
    var found = false
    while (!found && !ended)
      if (segment != null && segment.hasPlace(place)) {
        val current = place
        place = segment.after(place)
        if (!segment.isGone(current) && (whole || segment.isExpired(current, limits))) {
          count += 1
          if (!whole) segment.expire(current)
          if (unmatched && !segment.isMatched(current)) {
            segment.point(row, current)
            found = true
          }
        }
      } else nextSegment()
    found
  }

  private def nextSegment(): Unit = {
    if (segment != null) {
      if (whole) buffer.drop(segment, store)
      else {
        segment.settle()
        if (memory.exceeded) {
          segment.evictedBelow = limits
          buffer.unload(segment, store)
        }
      }
      segment = null
    }
    at += 1
    if (at >= segments.length) {
      ended = true
      buffer.evicted(limits)
    } else {
      val candidate = segments(at)
      whole = isWhole(candidate)
      if (whole && !unmatched) {
        count += candidate.live
        buffer.drop(candidate, store)
      } else {
        segment = candidate
        buffer.load(segment, store)
        place = segment.first
      }
    }
  }
}
