package org.apache.spark.sql.streamjoin.state

import java.util.Arrays

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.unsafe.Platform

/**
 * Rows of one input and one bucket of time, packed one after the other. The bytes in memory are
 * identical to those in the state store:
 *
 * {{{
 *   segment   | header | row | row | ... | summary |     written once
 *   flags     | header | two bits a row |                written separately, once flags change
 * }}}
 *
 * All rows are appended when the segment is built; from then on only their flags change: matched,
 * and gone (expired or removed). A row is identified by its place, its offset in the segment, which
 * never changes. The rows can be dropped from memory ([[unload]]); only their summary then stays in
 * memory. [[SegmentFormat]] describes the bytes.
 *
 * @param bucket
 *   number of the bucket that the times lie in
 * @param bytes
 *   bytes of the header and of all rows to come, see [[Segment.sizeOf]]
 */
final private[streamjoin] class Segment(
    val layout: RowLayout,
    val bucket: Long,
    memory: IndexMemory,
    bytes: Int = SegmentFormat.RowsAt
) {
  import Segment._

  private val summarySize = SegmentFormat.summarySize(layout.expiring.length)
  private var image: Array[Byte] = SegmentFormat.newValue(bytes + summarySize)
  memory.add(OwnBytes.toLong + image.length)
  private var isDiscarded = false
  private var end: Int = SegmentFormat.RowsAt

  /** Where the rows will end once all are appended. */
  private var full = bytes

  /** Includes rows that are gone. */
  private var rowCount = 0
  private var liveCount = 0
  private var removedCount = 0
  private var flaggedCount = 0
  private var rowBytes = 0L
  private var liveSize = 0L
  private val lowestTimes = Array.fill(layout.expiring.length)(Long.MaxValue)
  private val highestTimes = Array.fill(layout.expiring.length)(Long.MinValue)
  private var lowestIsOld = false

  /** The separate flags in their stored form, two bits per row; null until needed. */
  private var flagsApart: Array[Byte] = _

  private[state] val keys = new SegmentKeys(this, memory)

  /** Its number in the bucket; later segments have higher numbers. */
  private[state] var number: Long = -1L

  /** Whether the store has this segment, under its number. */
  private[state] var isStored: Boolean = false

  /** Whether the store has separate flags for this segment. */
  private[state] var flagsInStore: Boolean = false

  /** Whether flags have changed since they were last written. */
  private[state] var flagsChanged: Boolean = false

  /** Whether the version with which the batch started has this segment, under its number. */
  private[state] var isOfBase: Boolean = false

  /**
   * Whether this batch has removed or flagged rows, so that the segment may differ from that
   * version's.
   */
  private[state] var hasChanged: Boolean = false

  /** Whether it holds rows of the current batch. */
  private[state] var isFresh: Boolean = false

  /** Rows with an expiry time below these have been evicted; null until a batch evicts any. */
  private[state] var evictedBelow: Array[Long] = _

  def rows: Int = rowCount
  def live: Int = liveCount
  def isLoaded: Boolean = image != null

  /** Whether the segment was read from another task's store; this task's store does not have it. */
  private[state] def forgetStore(): Unit = {
    isStored = false
    flagsInStore = false
    flagsChanged = false
  }

  /** Bytes of the rows alone, in Spark's format. */
  def payload: Long = rowBytes

  /** Bytes in the store, without separate flags. */
  def size: Int = full + (if (hasSummary) summarySize else 0)

  /** Whether it was built, or read in a format with a summary. */
  private var hasSummary = true

  def hasRoomFor(row: Int): Boolean = end + sizeOf(row) <= full

  /** Bytes of the remaining rows, with their lengths and flags. */
  def liveBytes: Long = liveSize

  /** Whether more rows were removed than are left, so that rewriting the segment pays off. */
  def isSparse: Boolean = removedCount > liveCount

  def lowest(at: Int): Long = lowestTimes(at)
  def highest(at: Int): Long = highestTimes(at)

  def append(row: UnsafeRow): Int = append(row.getBaseObject, row.getBaseOffset, row.getSizeInBytes)

  def append(base: AnyRef, row: Long, length: Int): Int = {
    val place = end
    assert(hasRoomFor(length), "a segment has room for the rows it is made for")
    Platform.putInt(image, offset(place), length)
    Platform.putInt(image, offset(place) + 4, rowCount << MarkBits)
    Platform.copyMemory(base, row, image, offset(place) + RowHeader, length.toLong)
    end = place + sizeOf(length)
    count(place, length)
    place
  }

  private def count(place: Int, length: Int): Unit = {
    rowCount += 1
    liveCount += 1
    rowBytes += length
    liveSize += sizeOf(length)
    var at = 0
    while (at < lowestTimes.length) {
      val time = expiryTime(place, at)
      if (time < lowestTimes(at)) lowestTimes(at) = time
      if (time > highestTimes(at)) highestTimes(at) = time
      at += 1
    }
  }

  // Rows.

  def first: Int = SegmentFormat.RowsAt
  def hasPlace(place: Int): Boolean = place < end
  def after(place: Int): Int = place + RowHeader + Platform.getInt(image, offset(place))

  def point(row: UnsafeRow, place: Int): Unit =
    row.pointTo(image, offset(place) + RowHeader, Platform.getInt(image, offset(place)))

  def time(place: Int, position: Int): Long = layout.time(image, offset(place) + RowHeader, position)
  def expiryTime(place: Int, at: Int): Long = layout.expiryTime(image, offset(place) + RowHeader, at)

  def sameKey(place: Int, other: Segment, otherPlace: Int): Boolean =
    layout.sameKey(
      image,
      offset(place) + RowHeader,
      other.layout,
      other.image,
      offset(otherPlace) + RowHeader
    )

  /** Whether a row has the same key as a row of another layout. */
  def hasKey(place: Int, of: RowLayout, row: UnsafeRow): Boolean =
    layout.sameKey(image, offset(place) + RowHeader, of, row.getBaseObject, row.getBaseOffset)

  private[state] def hash(place: Int): Int = layout.hash(image, offset(place) + RowHeader)

  private[state] def foreachLive(visit: (Int, Int) => Unit): Unit = {
    assert(isLoaded, s"the rows of segment $number of bucket $bucket are not in memory")
    var place = first
    var i = 0
    while (place < end) {
      if (!isGone(place)) visit(i, place)
      place = after(place)
      i += 1
    }
  }

  /** Visits all rows, gone or not, with their positions and places. */
  private[state] def foreachPlace(visit: (Int, Int) => Unit): Unit = {
    assert(isLoaded, s"the rows of segment $number of bucket $bucket are not in memory")
    var place = first
    var i = 0
    while (place < end) {
      visit(i, place)
      place = after(place)
      i += 1
    }
  }

  // Flags.

  def isMatched(place: Int): Boolean = (flags(place) & Matched) != 0
  def isGone(place: Int): Boolean = (flags(place) & Gone) != 0

  private def flaggedNumber(place: Int): Int = Platform.getInt(image, offset(place) + 4)
  private[state] def flags(place: Int): Int = flaggedNumber(place) & AllFlags

  /** The position of the row among all rows. */
  private def rowAt(place: Int): Int = flaggedNumber(place) >>> MarkBits

  private[state] def flag(place: Int, bits: Int): Unit = {
    if (flags(place) == 0) flaggedCount += 1
    Platform.putInt(image, offset(place) + 4, flaggedNumber(place) | bits)
  }

  /** Sets a flag that has to be written to the store. */
  private def flagForStore(place: Int, bit: Int): Unit = {
    flag(place, bit)
    if (flagsApart != null) SegmentFormat.setFlags(flagsApart, rowAt(place), bit)
    flagsChanged = true
    hasChanged = true
  }

  def flagMatched(place: Int): Unit = if (!isMatched(place)) flagForStore(place, Matched)

  /** Removes a row before it expires. */
  def remove(place: Int): Unit =
    if (!isGone(place)) {
      flagForStore(place, Gone)
      leave(place)
      removedCount += 1
      keys.removed()
    }

  /**
   * Marks a row as expired. This follows from [[evictedBelow]], so it is not written to the store.
   */
  def expire(place: Int): Unit = {
    flag(place, Gone)
    hasChanged = true
    leave(place)
  }

  private def leave(place: Int): Unit = {
    liveCount -= 1
    liveSize -= after(place) - place
    lowestIsOld = true
  }

  def isExpired(place: Int, limits: Array[Long]): Boolean = {
    var at = 0
    while (at < limits.length && expiryTime(place, at) >= limits(at)) at += 1
    at < limits.length
  }

  /** Recomputes the lowest times after rows have left. */
  private[state] def settle(): Unit =
    if (lowestIsOld && isLoaded) {
      lowestIsOld = false
      Arrays.fill(lowestTimes, Long.MaxValue)
      foreachLive { (_, place) =>
        var at = 0
        while (at < lowestTimes.length) {
          lowestTimes(at) = math.min(lowestTimes(at), expiryTime(place, at))
          at += 1
        }
      }
    }

  /** Counts removed rows that have expired since then as expired, as reading the segment does. */
  private[state] def settleRemoved(): Unit = {
    hasChanged = true
    removedCount = 0
    foreachPlace { (_, place) =>
      if (isGone(place) && !(evictedBelow != null && isExpired(place, evictedBelow))) removedCount += 1
    }
  }

  // The store.

  /** Drops the rows, which are in the store; keeps the hashes of their keys if there is room. */
  private[state] def unload(): Unit =
    if (isLoaded) {
      keys.keepSorted()
      forget()
    }

  /** Keeps the key hashes of rows that were read but stay only in the store. */
  private[state] def keepKeys(rows: Array[Byte]): Unit = {
    image = rows
    keys.keepSorted()
    keys.dropHashes()
    image = null
  }

  private[state] def forget(): Unit = {
    keys.forget()
    setFlagsApart(null)
    if (isLoaded) memory.add(-image.length)
    image = null
  }

  /** Frees all memory; the segment must not be used again. */
  private[state] def discard(): Unit = if (!isDiscarded) {
    forget()
    keys.discard()
    memory.add(-OwnBytes)
    isDiscarded = true
  }

  private def setFlagsApart(flags: Array[Byte]): Unit = {
    memory.add(
      (if (flags == null) 0L else flags.length) - (if (flagsApart == null) 0L else flagsApart.length)
    )
    flagsApart = flags
  }

  /** The bytes to be written; the array is not a copy. */
  private[state] def sealedImage(side: Int, batch: Long): Array[Byte] = {
    assert(hasSummary && end == full, "a segment has all the rows it was made for")
    val summary =
      SegmentFormat.Summary(rowBytes, rowCount - liveCount, flaggedCount, lowestTimes, highestTimes)
    SegmentFormat.writeSummary(image, end, summary)
    SegmentFormat.writeHeader(image, side, bucket, number, rowCount, layout.fields, batch)
    image
  }

  /** The batch that wrote the segment, if the segment is loaded and records it. */
  private[state] def writtenIn: Option[Long] = SegmentFormat.batchOf(image)

  /** The flags of all rows, two bits each; the array is not a copy. */
  private[state] def flagsImage: Array[Byte] = {
    if (flagsApart == null) {
      setFlagsApart(SegmentFormat.newValue(SegmentFormat.flagsSize(rowCount)))
      if (flaggedCount > 0) foreachPlace((i, place) => SegmentFormat.setFlags(flagsApart, i, flags(place)))
    }
    SegmentFormat.writeFlagsHeader(flagsApart, rowCount)
    flagsApart
  }

  /**
   * Adopts the summary of rows that were read from the store and checked, but not the rows
   * themselves, if no row has to be inspected: none is gone, and none has expired since then.
   */
  private[state] def describe(rows: Array[Byte], flags: Array[Byte]): Boolean = {
    val summary = SegmentFormat.readSummary(rows, layout.expiring.length).filter { all =>
      all.gone == 0 && (flags == null || !SegmentFormat.hasGone(flags)) &&
      (evictedBelow == null || evictedBelow.indices.forall(i => all.lowest(i) >= evictedBelow(i)))
    }
    summary.foreach { all =>
      reset(rows)
      // From the bytes, not from the header: the caller compares the two.
      rowCount = ((end - first - all.payload) / RowHeader).toInt
      liveCount = rowCount
      flaggedCount = all.flagged
      rowBytes = all.payload
      liveSize = end.toLong - first
      all.lowest.copyToArray(lowestTimes)
      all.highest.copyToArray(highestTimes)
    }
    summary.isDefined
  }

  private def reset(rows: Array[Byte]): Unit = {
    end = SegmentFormat.rowsEnd(rows, layout.expiring.length)
    full = end
    hasSummary = end < SegmentFormat.size(rows)
    rowCount = 0
    liveCount = 0
    removedCount = 0
    flaggedCount = 0
    rowBytes = 0
    liveSize = 0
    lowestIsOld = false
    Arrays.fill(lowestTimes, Long.MaxValue)
    Arrays.fill(highestTimes, Long.MinValue)
  }

  /** Adopts rows, and separate flags if any, that were read from the store and checked. */
  private[state] def load(rows: Array[Byte], flags: Array[Byte]): Unit = {
    assert(!isLoaded || rowCount == 0, "a segment is read into an empty one")
    if (isLoaded) memory.add(-image.length)
    image = rows
    memory.add(image.length)
    setFlagsApart(flags)
    if (flags != null || !describe(rows, null)) look(rows)
  }

  /** Computes the summary row by row. */
  private def look(rows: Array[Byte]): Unit = {
    reset(rows)
    hasChanged = true // the limits may have moved since the version
    var place = first
    while (place < end) {
      val length = Platform.getInt(image, offset(place))
      // Format 2 stores no row numbers.
      val inPlace = flags(place) | (if (flagsApart == null) 0 else SegmentFormat.flags(flagsApart, rowCount))
      Platform.putInt(image, offset(place) + 4, rowCount << MarkBits)
      if (inPlace != 0) flag(place, inPlace)
      if (evictedBelow != null && isExpired(place, evictedBelow)) {
        flag(place, Gone)
        rowCount += 1
        rowBytes += length
      } else if (isGone(place)) {
        rowCount += 1
        removedCount += 1
        rowBytes += length
      } else count(place, length)
      place = after(place)
    }
  }
}

private[streamjoin] object Segment {

  /** The store reads and writes whole values, so larger segments are split. */
  val MaxBytes: Int = 4 << 20

  /**
   * Approximate bytes of a segment without its rows: the object, its arrays of times, and the map
   * entries for it and for its bucket.
   */
  private[state] val OwnBytes = 400

  /** Bytes before each row: its length and its flags. */
  private[state] val RowHeader = 8
  private[state] val Matched = 1
  private[state] val Gone = 2
  private val MarkBits = 2
  private val AllFlags = Matched | Gone

  /** Bytes that a row of this size adds to a segment. */
  private[state] def sizeOf(row: Int): Int = RowHeader + row

  private def offset(place: Int): Long = Platform.BYTE_ARRAY_OFFSET.toLong + SegmentFormat.ValueAt + place
}
