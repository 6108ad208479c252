package org.apache.spark.sql.streamjoin.state

import java.util.Arrays

/**
 * The rows of a segment, hashed by key. A segment gets no new rows, so the index needs no inserts
 * and no chains: eight bytes per row, and two for the filter.
 *
 * {{{
 *   filter    | word | word | ...               a key sets three bits of one word
 *   starts    | 0 | 2 | 2 | 5 | ... | rows |    slot s is refs(starts(s)) until refs(starts(s + 1))
 *   refs      | ref | ref | ref | ref | ...     one per row, slot after slot
 *
 *   ref       | 13 bits | 19 bits |             lower bits of the key's hash | place / 8
 *   hash      upper bits choose the slot and the word, lower bits make the word's bits and the ref
 * }}}
 *
 * A place is a multiple of eight below 4 MiB, so a ref has room for a part of the hash. This part
 * rules out rows of other keys without touching them; a memory access is what a probe would wait
 * for.
 *
 * Most probing rows have no match in a given segment, and a bucket may have many segments. The
 * filter, a blocked Bloom filter, rejects 99 of 100 of them and fits into a closer CPU cache than
 * the slots.
 *
 * The rows of a crowded slot, that is, of a key with many rows, are sorted by time, so that a probe
 * finds its range by binary search and touches no row outside of it. Rows of the same time are
 * sorted by their refs, so those of one key are next to each other, unless two keys agree in this
 * part of the hash.
 */
final private[state] class SegmentIndex(
    val starts: Array[Int],
    private[state] val refs: Array[Int],
    filter: Array[Long]
) {
  def bytes: Long = 4L * (starts.length + refs.length) + 8L * filter.length + 32

  /** Whether any row may have a key with this hash. */
  def mayHave(hash: Int): Boolean = {
    val bits = SegmentIndex.filterBits(hash)
    (filter(SegmentIndex.slot(hash, filter.length)) & bits) == bits
  }

  def slot(hash: Int): Int = SegmentIndex.slot(hash, starts.length - 1)

  def place(at: Int): Int = SegmentIndex.place(refs(at))

  /** Whether the row at an entry may have a key with this hash. */
  def mayBe(at: Int, hash: Int): Boolean =
    ((refs(at) ^ SegmentIndex.tagged(hash)) >>> SegmentIndex.PlaceBits) == 0

  /** The first entry of a slot that is not before a time, or of all if the slot is not crowded. */
  def from(segment: Segment, slot: Int, time: Long): Int =
    if (isCrowded(slot)) search(segment, slot, time) else starts(slot)

  /**
   * One past the last entry of a slot that is not after a time, or of all if the slot is not
   * crowded.
   */
  def until(segment: Segment, slot: Int, time: Long): Int =
    if (isCrowded(slot) && time < Long.MaxValue) search(segment, slot, time + 1) else starts(slot + 1)

  /** Whether the rows of a slot are sorted by time. */
  def isCrowded(slot: Int): Boolean = starts(slot + 1) - starts(slot) > SegmentIndex.Crowded

  /** The first entry of a slot whose time is not below `wanted`. */
  private def search(segment: Segment, slot: Int, wanted: Long): Int = {
    var (from, to) = (starts(slot), starts(slot + 1))
    while (from < to) {
      val middle = (from + to) >>> 1
      if (segment.expiryTime(place(middle), 0) < wanted) from = middle + 1 else to = middle
    }
    from
  }
}

private[state] object SegmentIndex {

  /** Slots with at most this many rows are scanned one by one. */
  val Crowded = 16

  /**
   * Bits of a ref for the place, divided by eight. The rest is a part of the hash that does not
   * choose the slot.
   */
  private val PlaceBits = 19
  require(Segment.MaxBytes <= (8 << PlaceBits), "a segment is too large for its refs")

  private val RowsPerWord = 4

  private val TimeBits = 63 - 32

  /** Three bits of a word. Other bits of the hash, the upper ones, choose the word. */
  private def filterBits(hash: Int): Long = (1L << hash) | (1L << (hash >>> 6)) | (1L << (hash >>> 12))

  private def tagged(hash: Int): Int = hash << PlaceBits
  private def place(ref: Int): Int = (ref & ((1 << PlaceBits) - 1)) << 3

  def of(segment: Segment): SegmentIndex = {
    val slots = math.max(1, segment.live)
    val starts = new Array[Int](slots + 1)
    val filter = new Array[Long](slots / RowsPerWord + 1)
    val hashes = segment.keys.hashes
    segment.foreachLive { (i, _) =>
      starts(slot(hashes(i), slots) + 1) += 1
      filter(slot(hashes(i), filter.length)) |= filterBits(hashes(i))
    }
    var s = 0
    var crowded = false
    while (s < slots) {
      crowded |= starts(s + 1) > Crowded
      starts(s + 1) += starts(s)
      s += 1
    }
    val refs = new Array[Int](starts(slots))
    val next = Arrays.copyOfRange(starts, 0, slots)
    segment.foreachLive { (i, ref) =>
      val to = slot(hashes(i), slots)
      refs(next(to)) = tagged(hashes(i)) | (ref >>> 3)
      next(to) += 1
    }
    if (crowded) {
      val order = new TimeOrder(segment)
      s = 0
      while (s < slots) {
        if (starts(s + 1) - starts(s) > Crowded) order.sort(refs, starts(s), starts(s + 1))
        s += 1
      }
    }
    new SegmentIndex(starts, refs, filter)
  }

  private def slot(hash: Int, slots: Int): Int = (((hash & 0xffffffffL) * slots) >>> 32).toInt

  /**
   * Sorts refs by the times of their rows, packed into one long each: half a long for the time,
   * relative to the lowest one and without its last bits, and half for the ref. If the segment
   * spans more than 35 minutes, rows that agree in the first bits are then sorted by the rest.
   */
  final private class TimeOrder(segment: Segment) {
    private val origin = segment.lowest(0)
    private val shift =
      math.max(0, 64 - java.lang.Long.numberOfLeadingZeros(segment.highest(0) - origin) - TimeBits)

    private def since(ref: Int): Long = segment.expiryTime(place(ref), 0) - origin

    def sort(refs: Array[Int], low: Int, high: Int): Unit = {
      val packed = new Array[Long](high - low)
      var i = 0
      while (i < packed.length) {
        val ref = refs(low + i)
        packed(i) = ((since(ref) >>> shift) << 32) | (ref & 0xffffffffL)
        i += 1
      }
      Arrays.sort(packed)
      if (shift > 0) sortRest(packed)
      i = 0
      while (i < packed.length) {
        refs(low + i) = packed(i).toInt
        i += 1
      }
    }

    private def sortRest(packed: Array[Long]): Unit = {
      var from = 0
      while (from < packed.length) {
        var to = from + 1
        while (to < packed.length && packed(to) >>> 32 == packed(from) >>> 32) to += 1
        if (to - from > 1) {
          var i = from
          while (i < to) {
            // The sign is flipped, because the rest may take all 32 bits.
            val rest = since(packed(i).toInt) & ((1L << shift) - 1)
            packed(i) = ((rest << 32) ^ Long.MinValue) | (packed(i) & 0xffffffffL)
            i += 1
          }
          Arrays.sort(packed, from, to)
        }
        from = to
      }
    }
  }
}
