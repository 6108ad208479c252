package org.apache.spark.sql.streamjoin.state

import scala.collection.mutable

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.unsafe.Platform

/**
 * Rows of one input in the order in which they come, until there are segments for them: these are then made as large as
 * they have to be. The pages are used again for the next rows; memory that is new to the process costs more than to fill
 * it.
 */
final private[state] class Arrivals(layout: RowLayout, memory: IndexMemory) {
  import Arrivals._

  private val pages = mutable.ArrayBuffer.empty[Array[Byte]]
  private var page: Array[Byte] = _
  private var end = 0
  private var held = 0L

  /** Where each page ends. */
  private val ends = mutable.ArrayBuffer.empty[Int]

  /** By bucket, how large each of its segments will be; rows go into the last. */
  private val sizes = mutable.LongMap.empty[mutable.ArrayBuffer[Int]]
  private var latest = 0L
  private var latestSizes: mutable.ArrayBuffer[Int] = _

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
    reserve(bucket, Segment.sizeOf(length))
  }

  private def turn(bytes: Int): Unit = {
    if (page != null) ends += end
    page = memory.borrow(bytes)
    pages += page
    held += page.length
    end = 0
  }

  private def reserve(bucket: Long, bytes: Int): Unit = {
    if (latestSizes == null || latest != bucket) {
      latest = bucket
      latestSizes = sizes.getOrElseUpdate(bucket, mutable.ArrayBuffer.empty)
    }
    val last = latestSizes.size - 1
    if (last < 0 || latestSizes(last).toLong + bytes > Segment.MaxBytes)
      latestSizes += SegmentFormat.RowsAt + bytes
    else latestSizes(last) += bytes
  }

  /** The segments of the rows that have come, which are then no longer here. */
  def drain(): Seq[Segment] = {
    if (page != null) ends += end
    val made = mutable.ArrayBuffer.empty[Segment]
    val filling = mutable.LongMap.empty[Filling]
    var current: Filling = null
    var i = 0
    while (i < pages.size) {
      val from = pages(i)
      var at = 0
      while (at < ends(i)) {
        val bucket = Platform.getLong(from, Platform.BYTE_ARRAY_OFFSET.toLong + at)
        val length = Platform.getInt(from, Platform.BYTE_ARRAY_OFFSET.toLong + at + 8)
        if (current == null || current.bucket != bucket)
          current = filling.getOrElseUpdate(bucket, new Filling(bucket, sizes(bucket)))
        if (!current.hasRoomFor(length)) made += current.next()
        current.segment.append(from, Platform.BYTE_ARRAY_OFFSET.toLong + at + Header, length)
        at += Header + length
      }
      memory.giveBack(from)
      i += 1
    }
    pages.clear()
    ends.clear()
    sizes.clear()
    page = null
    held = 0
    latestSizes = null
    made.toSeq
  }

  /** The segments of a bucket, one after the other. */
  final private class Filling(val bucket: Long, sizes: collection.IndexedSeq[Int]) {
    private var at = -1
    var segment: Segment = _

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
}
