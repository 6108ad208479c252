package org.apache.spark.sql.streamjoin.state

import scala.collection.mutable

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow

/**
 * Finds the rows of a buffer that are closest in time to given rows of the same key. The buffer
 * must not change during this time.
 *
 * A look-up starts with the segments nearest to its time and ends when no remaining segment can
 * have a closer row. In a segment, the index finds the rows of the key; if there are many, they are
 * sorted by time and a binary search finds the closest. If many rows have the same time, the latest
 * of them is determined once. So the cost of a look-up depends on the rows near its time, not on
 * the size of the buffer.
 *
 * If segments have to be read from the store, rows are looked up together ([[Asked]]), so that each
 * segment is read once for all of them, and only if it may have a row for one of them.
 *
 * @param asking
 *   layout of the given rows
 * @param later
 *   order of two rows with the same key and time; the later one is found
 */
final private[streamjoin] class ClosestRows(
    buffer: Buffer,
    asking: RowLayout,
    later: Ordering[InternalRow],
    joinIndex: JoinIndex,
    store: SegmentStore
) {
  private val memory = joinIndex.memory
  private val byLowest = buffer.segments.filter(_.live > 0).toArray.sortBy(_.lowest(0))
  private val lowest = byLowest.map(_.lowest(0))

  /** The highest time in a segment and those before it. */
  private val highestSoFar = byLowest.map(_.highest(0)).scanLeft(Long.MinValue)(math.max(_, _)).tail
  private val byHighest = byLowest.sortBy(_.highest(0))
  private val highest = byHighest.map(_.highest(0))

  /** The lowest time in a segment and those after it. */
  private val lowestFromHere = byHighest.map(_.lowest(0)).scanRight(Long.MaxValue)(math.min(_, _)).init

  private var (best, candidate) = (new UnsafeRow(buffer.layout.fields), new UnsafeRow(buffer.layout.fields))
  private var isFound = false

  /** The range of times in which a row is at least as close as the best one. */
  private var (from, to) = (0L, 0L)

  /** Whether the best row has changed since the segment was chosen. */
  private var isImproved = false

  private def begin(from: Long, to: Long): Unit = {
    this.from = from
    this.to = to
    isFound = false
  }

  /** Whether some rows are only in the store. */
  def isBeyondMemory: Boolean = byLowest.exists(!_.isLoaded)

  /** How many bytes of rows may be looked up together, including the found rows. */
  def room: Long = memory.allowance / ClosestRows.Part

  /** A row to look up, with the range of times to search; it receives a copy of the found row. */
  final class Asked(
      val row: UnsafeRow,
      private[ClosestRows] var from: Long,
      private[ClosestRows] var to: Long
  ) {
    private[ClosestRows] val hash: Int = asking.hash(row.getBaseObject, row.getBaseOffset)

    /** The found row, or null. */
    var found: UnsafeRow = _
  }

  /** The average size of a found row. */
  val rowBytes: Long = {
    val rows = byLowest.iterator.map(_.rows.toLong).sum
    if (rows == 0) 0L else byLowest.iterator.map(_.payload).sum / rows
  }

  /** Finds the last row of the key for each row. */
  def last(asked: Array[Asked]): Unit =
    byLowest.reverseIterator.foreach(lookTogether(_, asked, forLast = true))

  /** Finds the first row of the key for each row. */
  def first(asked: Array[Asked]): Unit = byHighest.foreach(lookTogether(_, asked, forLast = false))

  private def lookTogether(segment: Segment, asked: Array[Asked], forLast: Boolean): Unit = {
    val (lowest, highest) = (segment.lowest(0), segment.highest(0))
    val wasLoaded = segment.isLoaded
    val probing = asked.filter { one =>
      one.to >= lowest && one.from <= highest && (wasLoaded || segment.keys.mayHave(one.hash))
    }
    if (probing.nonEmpty) {
      buffer.load(segment, store)
      probing.foreach(probe(segment, _, forLast))
      if (memory.exceeded) {
        if (!wasLoaded) buffer.unload(segment, store)
        if (memory.exceeded) joinIndex.shrink(store)
      }
    }
  }

  private def probe(segment: Segment, asked: Asked, forLast: Boolean): Unit = {
    begin(asked.from, asked.to)
    if (asked.found != null) {
      isFound = true
      best.pointTo(asked.found.getBaseObject, asked.found.getBaseOffset, asked.found.getSizeInBytes)
    }
    isImproved = false
    probe(segment, asked.row, asked.hash, forLast)
    if (isImproved) {
      // The segment may be unloaded.
      asked.found = best.copy()
      asked.from = from
      asked.to = to
    }
  }

  private def result: UnsafeRow = if (isFound) best else null

  /** The last row of the key between two times, or null; valid until the next call. */
  def last(row: UnsafeRow, from: Long, to: Long): UnsafeRow = {
    begin(from, to)
    val hash = asking.hash(row.getBaseObject, row.getBaseOffset)
    var at = ClosestRows.firstAbove(lowest, to) - 1
    while (at >= 0 && highestSoFar(at) >= this.from) {
      if (byLowest(at).highest(0) >= this.from) look(byLowest(at), row, hash, forLast = true)
      at -= 1
    }
    result
  }

  /** The first row of the key between two times, or null; valid until the next call. */
  def first(row: UnsafeRow, from: Long, to: Long): UnsafeRow = {
    begin(from, to)
    val hash = asking.hash(row.getBaseObject, row.getBaseOffset)
    var at = if (from == Long.MinValue) 0 else ClosestRows.firstAbove(highest, from - 1)
    while (at < byHighest.length && lowestFromHere(at) <= this.to) {
      if (byHighest(at).lowest(0) <= this.to) look(byHighest(at), row, hash, forLast = false)
      at += 1
    }
    result
  }

  private def look(segment: Segment, row: UnsafeRow, hash: Int, forLast: Boolean): Unit =
    if (segment.isLoaded || segment.keys.mayHave(hash)) {
      buffer.load(segment, store)
      probe(segment, row, hash, forLast)
      if (memory.exceeded) joinIndex.shrink(store, _ eq segment)
    }

  private def probe(segment: Segment, row: UnsafeRow, hash: Int, forLast: Boolean): Unit = {
    val index = segment.keys.index
    if (index.mayHave(hash)) {
      val slot = index.slot(hash)
      val isSorted = index.isCrowded(slot)
      var low = index.from(segment, slot, from)
      var high = index.until(segment, slot, to)
      // Starting at the end with the closest rows.
      while (low < high) {
        val at = if (forLast) high - 1 else low
        if (forLast) high = at else low = at + 1
        if (index.mayBe(at, hash) && isClose(segment, index.place(at), row))
          if (isSorted) {
            // All others are farther away, or equally close.
            val time = segment.expiryTime(index.place(at), 0)
            def isTie(other: Int) = segment.expiryTime(index.place(other), 0) == time
            val hasTies = low < high && isTie(if (forLast) high - 1 else low)
            offer(
              segment,
              if (hasTies) latestOf(segment, index, slot, row, hash, time) else index.place(at),
              forLast
            )
            low = high
          } else offer(segment, index.place(at), forLast)
      }
    }
  }

  private def isClose(segment: Segment, place: Int, row: UnsafeRow): Boolean = {
    val time = segment.expiryTime(place, 0)
    time >= from && time <= to && !segment.isGone(place) && segment.hasKey(place, asking, row)
  }

  /** Selects the row at a place if it is closer than the best one so far. */
  private def offer(segment: Segment, place: Int, forLast: Boolean): Unit = {
    val time = segment.expiryTime(place, 0)
    segment.point(candidate, place)
    if (!isFound || time != (if (forLast) from else to) || later.gt(candidate, best)) {
      val other = best
      best = candidate
      candidate = other
      isFound = true
      isImproved = true
      if (forLast) from = time else to = time
    }
  }

  /** By segment, key and time: the place of the latest row, if there are many. */
  private val latest = mutable.HashMap.empty[ClosestRows.Ties, Int]
  private val (tied, latestTied) =
    (new UnsafeRow(buffer.layout.fields), new UnsafeRow(buffer.layout.fields))

  /** The place of the latest row of a key in a sorted slot, among those with the same time. */
  private def latestOf(
      segment: Segment,
      index: SegmentIndex,
      slot: Int,
      row: UnsafeRow,
      hash: Int,
      time: Long
  ): Int = {
    val (start, end) = (index.from(segment, slot, time), index.until(segment, slot, time))
    def search(): Int = {
      var found = -1
      var at = start
      while (at < end) {
        val place = index.place(at)
        if (index.mayBe(at, hash) && !segment.isGone(place) && segment.hasKey(place, asking, row)) {
          segment.point(tied, place)
          if (found < 0 || later.gt(tied, latestTied)) {
            found = place
            segment.point(latestTied, place)
          }
        }
        at += 1
      }
      found
    }
    if (end - start <= ClosestRows.FewTies) search()
    else {
      val ties = ClosestRows.Ties(segment, hash, time)
      // Another key may have the same hash.
      latest.get(ties).filter(segment.hasKey(_, asking, row)).getOrElse {
        if (latest.size == ClosestRows.MostTies) latest.clear()
        val found = search()
        latest(ties) = found
        found
      }
    }
  }
}

private object ClosestRows {

  /** Rows that are looked up together use this part of the memory. */
  private val Part = 4

  /** The maximum number of rows with the same time that are compared for each look-up. */
  private val FewTies = 8

  /**
   * The maximum number of remembered latest rows; the look-ups of a batch are in the order of time.
   */
  private val MostTies = 1 << 16

  /** Rows of a segment with the same time and the same hash of their keys. */
  final private case class Ties(segment: Segment, hash: Int, time: Long)

  /** The position of the first of these ascending numbers that is above `number`. */
  private def firstAbove(numbers: Array[Long], number: Long): Int = {
    var (from, to) = (0, numbers.length)
    while (from < to) {
      val middle = (from + to) >>> 1
      if (numbers(middle) > number) to = middle else from = middle + 1
    }
    from
  }
}
