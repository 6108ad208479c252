package org.apache.spark.sql.streamjoin.state

import java.util.Arrays

import scala.collection.mutable

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.unsafe.Platform
import org.apache.spark.unsafe.hash.Murmur3_x86_32

/**
 * Rows of one input as they come, until there are segments for them: these are then made as large as they have to be. The
 * pages are used again for the next rows; memory that is new to the process costs more than to fill it.
 *
 * The rows go into segments in an order of their own: two attempts at a task, to which they come in two
 * orders, write the same segments, and what is later said of a row by its place holds for both.
 */
final private[state] class Arrivals(layout: RowLayout, memory: IndexMemory) {
  import Arrivals._

  private val pages = mutable.ArrayBuffer.empty[Array[Byte]]
  private var page: Array[Byte] = _
  private var end = 0
  private var held = 0L
  private var rows = 0

  /** Where each page ends. */
  private val ends = mutable.ArrayBuffer.empty[Int]

  def isEmpty: Boolean = pages.isEmpty

  /** Of the pages. */
  def bytes: Long = held

  /** The row does not fit into the pages that there are. */
  def isFullFor(row: UnsafeRow): Boolean = page == null || end + needs(row) > page.length

  private def needs(row: UnsafeRow): Int = Header + row.getSizeInBytes

  /** Keeps a copy of the row. */
  def append(row: UnsafeRow, bucket: Long): Unit = {
    if (isFullFor(row)) turn(needs(row))
    val length = row.getSizeInBytes
    Platform.putLong(page, Platform.BYTE_ARRAY_OFFSET.toLong + end, bucket)
    Platform.putInt(page, Platform.BYTE_ARRAY_OFFSET.toLong + end + 8, length)
    row.writeToMemory(page, Platform.BYTE_ARRAY_OFFSET.toLong + end + Header)
    end += Header + length
    rows += 1
  }

  private def turn(bytes: Int): Unit = {
    if (page != null) ends += end
    page = memory.borrow(bytes)
    pages += page
    held += page.length
    end = 0
  }

  /** The segments of the rows that have come, which are then no longer here. */
  def drain(): Seq[Segment] = {
    if (page != null) ends += end
    val order = inOrder()
    val made = mutable.ArrayBuffer.empty[Segment]
    val filling = mutable.LongMap.empty[Filling]
    var current: Filling = null
    def bucketOf(ref: Long): Filling = {
      val bucket = Platform.getLong(pages(pageOf(ref)), Platform.BYTE_ARRAY_OFFSET.toLong + placeOf(ref))
      if (current == null || current.bucket != bucket)
        current = filling.getOrElseUpdate(bucket, new Filling(bucket))
      current
    }
    order.foreach(ref => bucketOf(ref).reserve(Segment.sizeOf(lengthOf(ref))))
    order.foreach { ref =>
      val bucket = bucketOf(ref)
      val length = lengthOf(ref)
      if (!bucket.hasRoomFor(length)) made += bucket.next()
      bucket.segment.append(pages(pageOf(ref)), rowOf(ref), length)
    }
    pages.foreach(memory.giveBack)
    pages.clear()
    ends.clear()
    page = null
    held = 0
    rows = 0
    made.toSeq
  }

  // A row is its page and its place in it.

  private def pageOf(ref: Long): Int = (ref >>> 32).toInt
  private def placeOf(ref: Long): Int = ref.toInt
  private def rowOf(ref: Long): Long = Platform.BYTE_ARRAY_OFFSET.toLong + placeOf(ref) + Header
  private def timeOf(ref: Long): Long = layout.expiryTime(pages(pageOf(ref)), rowOf(ref), 0)
  private def lengthOf(ref: Long): Int =
    Platform.getInt(pages(pageOf(ref)), Platform.BYTE_ARRAY_OFFSET.toLong + placeOf(ref) + 8)

  /**
   * All rows: by their times, roughly, for that is nearly the order in which they have come; then by a hash of their bytes; and
   * where two are alike in both, by the bytes.
   */
  private def inOrder(): Array[Long] = {
    val refs = new Array[Long](rows)
    var earliest = Long.MaxValue
    var latest = Long.MinValue
    var i = 0
    pages.indices.foreach { number =>
      var at = 0
      while (at < ends(number)) {
        refs(i) = (number.toLong << 32) | at
        val time = timeOf(refs(i))
        if (time < earliest) earliest = time
        if (time > latest) latest = time
        at += Header + lengthOf(refs(i))
        i += 1
      }
    }
    val shift = math.max(0, 64 - java.lang.Long.numberOfLeadingZeros(latest - earliest) - TimeBits)
    val order = new Array[Long](rows)
    i = 0
    while (i < rows) {
      val hash = Murmur3_x86_32.hashUnsafeWords(pages(pageOf(refs(i))), rowOf(refs(i)), lengthOf(refs(i)), 0)
      val time = (timeOf(refs(i)) - earliest) >>> shift
      order(i) = (time << (32 + HashBits)) | ((hash & ((1L << HashBits) - 1)) << 32) | i
      i += 1
    }
    Arrays.sort(order)
    i = 0
    while (i < rows) {
      val alike = order(i) >>> 32
      val from = i
      while (i < rows && (order(i) >>> 32) == alike) {
        order(i) = refs(order(i).toInt)
        i += 1
      }
      if (i - from > 1) order.slice(from, i).sorted(byBytes).copyToArray(order, from)
    }
    order
  }

  private lazy val byBytes: Ordering[Long] = (one: Long, other: Long) => {
    def from(ref: Long) = placeOf(ref) + Header
    def until(ref: Long) = from(ref) + lengthOf(ref)
    Arrays.compare(
      pages(pageOf(one)),
      from(one),
      until(one),
      pages(pageOf(other)),
      from(other),
      until(other)
    )
  }

  /** The segments of a bucket, one after the other. */
  final private class Filling(val bucket: Long) {
    private val sizes = mutable.ArrayBuffer.empty[Int]
    private var at = -1
    var segment: Segment = _

    def reserve(bytes: Int): Unit = {
      val last = sizes.size - 1
      if (last < 0 || sizes(last).toLong + bytes > Segment.MaxBytes) sizes += SegmentFormat.RowsAt + bytes
      else sizes(last) += bytes
    }

    def hasRoomFor(length: Int): Boolean = at >= 0 && segment.size + Segment.sizeOf(length) <= sizes(at)

    def next(): Segment = {
      at += 1
      segment = new Segment(layout, bucket, memory, sizes(at))
      segment
    }
  }
}

private object Arrivals {

  /** Before each row its bucket and its length; rows begin at multiples of eight. */
  private val Header = 16

  /** Of 31 bits that rows are ordered by, those of the time; the others are of the hash. */
  private val TimeBits = 20
  private val HashBits = 31 - TimeBits
}
