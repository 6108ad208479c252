package org.apache.spark.sql.streamjoin.state

import java.util.Arrays

import scala.collection.mutable

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.unsafe.Platform
import org.apache.spark.unsafe.array.LongArray
import org.apache.spark.unsafe.hash.Murmur3_x86_32
import org.apache.spark.unsafe.memory.MemoryBlock
import org.apache.spark.util.collection.unsafe.sort.RadixSort

/**
 * Collects rows of one input until they are put into segments, which are then allocated at their
 * final size. Pages are reused for the next rows, because new memory costs the process more than
 * filling it.
 *
 * The order of the rows in segments depends only on the set of collected rows. Two attempts at a
 * task that receive them in different orders write the same segments, so a flag that is stored
 * under a row's number is valid for both.
 */
final private[state] class WriteBuffer(layout: RowLayout, initialWidth: Long, memory: IndexMemory) {
  import WriteBuffer._

  private var bucketWidth = initialWidth

  private val pages = mutable.ArrayBuffer.empty[Array[Byte]]
  private var page: Array[Byte] = _
  private var end = 0
  private var taken = 0L
  private var rows = 0

  /** Where the rows of each page end. */
  private val ends = mutable.ArrayBuffer.empty[Int]

  def isEmpty: Boolean = pages.isEmpty

  /** Changes the width of the buckets of the next rows, while there are none. */
  def bucketBy(width: Long): Unit = {
    assert(isEmpty, s"$count rows are in buckets of another width")
    bucketWidth = width
  }

  /** Number of collected rows. */
  def count: Int = rows

  /** Bytes of the rows and their headers. */
  def bytes: Long = taken

  /**
   * Whether the row would take the total beyond this many bytes; the order of the rows does not
   * matter.
   */
  def exceeds(bytes: Long, row: UnsafeRow): Boolean = !isEmpty && taken + needs(row) > bytes

  private def needs(row: UnsafeRow): Int = Header + row.getSizeInBytes

  /** Copies the row and its flags; returns its bucket at level 0. */
  def append(row: UnsafeRow, flags: Int = 0): Long = {
    if (page == null || end + needs(row) > page.length) turn(needs(row))
    val length = row.getSizeInBytes
    val at = Platform.BYTE_ARRAY_OFFSET.toLong + end
    row.writeToMemory(page, at + Header)
    val bucket = Buckets.of(layout.expiryTime(page, at + Header, 0), bucketWidth)
    Platform.putLong(page, at, bucket)
    Platform.putInt(page, at + LengthAt, length)
    Platform.putInt(page, at + FlagsAt, flags)
    end += Header + length
    taken += Header + length
    rows += 1
    bucket
  }

  private def turn(bytes: Int): Unit = {
    if (page != null) ends += end
    page = memory.borrow(bytes)
    pages += page
    end = 0
  }

  /** Returns the rows page by page, each trimmed to its contents, and forgets them. */
  def giveUp(take: Array[Byte] => Unit): Unit = {
    if (page != null) ends += end
    pages.indices.foreach(number => take(Arrays.copyOf(pages(number), ends(number))))
    clear()
  }

  /** Takes back a page from [[giveUp]]. */
  def takeBack(content: Array[Byte]): Unit = {
    if (page == null || end + content.length > page.length) turn(content.length)
    System.arraycopy(content, 0, page, end, content.length)
    var at = end
    end += content.length
    taken += content.length
    while (at < end) {
      at += Header + Platform.getInt(page, Platform.BYTE_ARRAY_OFFSET.toLong + at + LengthAt)
      rows += 1
    }
  }

  /** Forgets the rows. */
  def clear(): Unit = {
    pages.foreach(memory.giveBack)
    pages.clear()
    ends.clear()
    page = null
    taken = 0
    rows = 0
  }

  /** Moves the rows into segments of buckets at a level. */
  def drain(level: Int): Seq[Segment] = {
    if (page != null) ends += end
    val order = inOrder()
    val made = mutable.ArrayBuffer.empty[Segment]
    val filling = mutable.LongMap.empty[Filling]
    var current: Filling = null
    def fillingOf(ref: Long): Filling = {
      val bucket = Buckets.raised(bucketAt(ref), level)
      if (current == null || current.bucket != bucket)
        current = filling.getOrElseUpdate(bucket, new Filling(bucket))
      current
    }
    order.foreach(ref => fillingOf(ref).reserve(Segment.sizeOf(lengthOf(ref))))
    order.foreach { ref =>
      val bucket = fillingOf(ref)
      val length = lengthOf(ref)
      if (!bucket.hasRoomFor(length)) made += bucket.next()
      val place = bucket.segment.append(pages(pageOf(ref)), rowOf(ref), length)
      val flags = Platform.getInt(pages(pageOf(ref)), at(ref) + FlagsAt)
      if (flags != 0) bucket.segment.flag(place, flags)
    }
    clear()
    made.toSeq
  }

  // A ref to a row is the number of its page and its place in it.

  private def pageOf(ref: Long): Int = (ref >>> 32).toInt
  private def placeOf(ref: Long): Int = ref.toInt
  private def at(ref: Long): Long = Platform.BYTE_ARRAY_OFFSET.toLong + placeOf(ref)
  private def rowOf(ref: Long): Long = at(ref) + Header
  private def bucketAt(ref: Long): Long = Platform.getLong(pages(pageOf(ref)), at(ref))
  private def timeOf(ref: Long): Long = layout.expiryTime(pages(pageOf(ref)), rowOf(ref), 0)
  private def lengthOf(ref: Long): Int = Platform.getInt(pages(pageOf(ref)), at(ref) + LengthAt)

  /**
   * All rows in order: roughly by time, which is nearly the order of arrival; then by a hash of
   * their bytes; then by the bytes.
   */
  private def inOrder(): Array[Long] = {
    val refs = new Array[Long](rows)
    val times = new Array[Long](rows)
    var earliest = Long.MaxValue
    var latest = Long.MinValue
    var i = 0
    pages.indices.foreach { number =>
      var at = 0
      while (at < ends(number)) {
        refs(i) = (number.toLong << 32) | at
        times(i) = timeOf(refs(i))
        if (times(i) < earliest) earliest = times(i)
        if (times(i) > latest) latest = times(i)
        at += Header + lengthOf(refs(i))
        i += 1
      }
    }
    val shift = math.max(0, 64 - java.lang.Long.numberOfLeadingZeros(latest - earliest) - TimeBits)
    // The sort needs as much room again.
    val keyed = new Array[Long](2 * rows)
    i = 0
    while (i < rows) {
      val ref = refs(i)
      val hash = Murmur3_x86_32.hashUnsafeWords(pages(pageOf(ref)), rowOf(ref), lengthOf(ref), 0)
      val time = (times(i) - earliest) >>> shift
      keyed(i) = (time << (32 + HashBits)) | ((hash & ((1L << HashBits) - 1)) << 32) | i
      i += 1
    }
    val sorted = RadixSort.sort(new LongArray(MemoryBlock.fromLongArray(keyed)), rows, 4, 7, false, false)
    val order = new Array[Long](rows)
    i = 0
    while (i < rows) {
      val alike = keyed(sorted + i) >>> 32
      val from = i
      while (i < rows && (keyed(sorted + i) >>> 32) == alike) {
        order(i) = refs(keyed(sorted + i).toInt)
        i += 1
      }
      if (i - from > 1) order.slice(from, i).sorted(byBytes).copyToArray(order, from)
    }
    order
  }

  private lazy val byBytes: Ordering[Long] = (one: Long, other: Long) => {
    def from(ref: Long) = placeOf(ref) + FlagsAt
    def until(ref: Long) = placeOf(ref) + Header + lengthOf(ref)
    Arrays.compare(
      pages(pageOf(one)),
      from(one),
      until(one),
      pages(pageOf(other)),
      from(other),
      until(other)
    )
  }

  private val mostBytes = Segment.MaxBytes - SegmentFormat.summarySize(layout.expiring.length)

  /** The segments of a bucket, one after the other. */
  final private class Filling(val bucket: Long) {

    /** The bytes of each segment; those of the last one are in `last`. */
    private val sizes = mutable.ArrayBuffer.empty[Int]
    private var last = 0
    private var at = -1
    var segment: Segment = _

    def reserve(bytes: Int): Unit =
      if (last > 0 && last.toLong + bytes <= mostBytes) last += bytes
      else {
        if (last > 0) sizes += last
        last = SegmentFormat.RowsAt + bytes
      }

    def hasRoomFor(length: Int): Boolean = at >= 0 && segment.hasRoomFor(length)

    def next(): Segment = {
      at += 1
      segment = new Segment(layout, bucket, memory, if (at < sizes.size) sizes(at) else last)
      segment
    }
  }
}

private object WriteBuffer {

  /** Before each row: its bucket, length and flags. Rows begin at multiples of eight. */
  private val LengthAt = 8
  private val FlagsAt = 12
  private val Header = 16

  /** Rows are sorted by 31 bits: this many bits of the time, and the others of the hash. */
  private val TimeBits = 20
  private val HashBits = 31 - TimeBits
}
