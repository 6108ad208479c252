package org.apache.spark.sql.streamjoin.state

import java.util.Arrays

/**
 * The rows of a segment by key: `refs` has their places, slot after slot, and `starts` where each slot begins. A segment
 * does not change, so there is nothing to insert and nothing to chain: eight bytes a row.
 *
 * The rows of a crowded slot, that is, of a key with many rows, are in the order of their times, so that a probe finds
 * its range by halving and touches no row outside of it. Times are compared by `time >> shift`, which is exact unless a
 * segment spans many hours: the caller compares the rest.
 */
final private[state] class SegmentIndex(
    val starts: Array[Int],
    val refs: Array[Int],
    origin: Long,
    shift: Int
) {
  def bytes: Long = 4L * (starts.length + refs.length) + 32

  def slot(hash: Int): Int = SegmentIndex.slot(hash, starts.length - 1)

  /** The first in a slot that is not before a time; a slot that is not crowded is searched from its beginning. */
  def from(segment: Segment, slot: Int, time: Long): Int = {
    val (low, high) = (starts(slot), starts(slot + 1))
    if (high - low <= SegmentIndex.Crowded) low
    else {
      val wanted = coarse(time)
      var (from, to) = (low, high)
      while (from < to) {
        val middle = (from + to) >>> 1
        if (coarse(segment.expiryTime(refs(middle), 0)) < wanted) from = middle + 1 else to = middle
      }
      from
    }
  }

  /** No later row of the slot is of use. */
  def isPast(slot: Int, time: Long, to: Long): Boolean =
    starts(slot + 1) - starts(slot) > SegmentIndex.Crowded && coarse(time) > coarse(to)

  private def coarse(time: Long): Long = SegmentIndex.coarse(time, origin, shift)
}

private[state] object SegmentIndex {

  /** Rows of a slot that are looked through one by one. */
  val Crowded = 16

  /** How many bits of a place count beside a time; places are multiples of eight below 2^31. */
  private val RefBits = 28
  private val TimeBits = 63 - RefBits

  def of(segment: Segment): SegmentIndex = {
    val slots = math.max(1, segment.live)
    val starts = new Array[Int](slots + 1)
    val hashes = segment.hashes
    segment.foreachLive((i, _) => starts(slot(hashes(i), slots) + 1) += 1)
    var s = 0
    var crowded = false
    while (s < slots) {
      crowded |= starts(s + 1) > Crowded
      starts(s + 1) += starts(s)
      s += 1
    }
    val refs = new Array[Int](starts(slots))
    // Each slot is filled from its end, so that its start is where it was counted to be; backwards, to keep the order.
    val next = Arrays.copyOfRange(starts, 0, slots)
    segment.foreachLive { (i, ref) =>
      val to = slot(hashes(i), slots)
      refs(next(to)) = ref
      next(to) += 1
    }
    val origin = segment.lowest(0)
    val shift = if (crowded) shiftFor(origin, segment.highest(0)) else 0
    if (crowded) {
      s = 0
      while (s < slots) {
        if (starts(s + 1) - starts(s) > Crowded) order(segment, refs, starts(s), starts(s + 1), origin, shift)
        s += 1
      }
    }
    new SegmentIndex(starts, refs, origin, shift)
  }

  private def slot(hash: Int, slots: Int): Int = (((hash & 0xffffffffL) * slots) >>> 32).toInt

  /** What is before the origin, or further away than a long can say, is at the end of the range. */
  private def coarse(time: Long, origin: Long, shift: Int): Long =
    if (time <= origin) 0L
    else {
      val distance = time - origin
      if (distance < 0) Long.MaxValue else distance >>> shift
    }

  private def shiftFor(lowest: Long, highest: Long): Int = {
    val bits = 64 - java.lang.Long.numberOfLeadingZeros(coarse(highest, lowest, 0))
    math.max(0, bits - TimeBits)
  }

  private def order(segment: Segment, refs: Array[Int], low: Int, high: Int, origin: Long, shift: Int): Unit = {
    val packed = new Array[Long](high - low)
    var i = low
    while (i < high) {
      val time = coarse(segment.expiryTime(refs(i), 0), origin, shift)
      packed(i - low) = (time << RefBits) | (refs(i) >>> 3)
      i += 1
    }
    Arrays.sort(packed)
    i = low
    while (i < high) {
      refs(i) = (packed(i - low) & ((1L << RefBits) - 1)).toInt << 3
      i += 1
    }
  }
}
