package org.apache.spark.sql.streamjoin.state

import scala.collection.mutable

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.unsafe.hash.Murmur3_x86_32

/**
 * The rows of one bucket in one batch, if there are too many to sort at once. They are cut into
 * parts by time, and rows of nearly the same time by a hash. The cuts depend only on the set of
 * rows, and each part is sorted into segments independently, so the result does not depend on the
 * segments that the rows were in before.
 *
 * In this order: [[weigh]] all rows, [[cut]] the parts, [[scatter]] all rows, [[drain]] part by
 * part. If memory is short, parts are spilled to the store. A row is read from the store at most
 * three times.
 *
 * @param canSpill
 *   whether parts may be spilled to the store
 */
final private[state] class Backlog(
    side: Int,
    layout: RowLayout,
    bucket: Long,
    bucketWidth: Long,
    memory: IndexMemory,
    store: SegmentStore,
    canSpill: Boolean
) {
  import Backlog._

  private val weights = new Array[Long](Bins)
  private val span = Buckets.span(bucket, bucketWidth)
  private val shift = math.max(0, 64 - java.lang.Long.numberOfLeadingZeros(span - 1) - BinBits)
  private val row = new UnsafeRow(layout.fields)

  private def bin(segment: Segment, place: Int): Int =
    (Math.floorMod(segment.expiryTime(place, 0), span) >>> shift).toInt

  def weigh(segment: Segment): Unit = segment.foreachLive { (_, place) =>
    weights(bin(segment, place)) += segment.after(place) - place
  }

  /** The part of each bin, or the first of several if the bin is divided by the hash. */
  private val firstPart = new Array[Int](Bins)
  private val hashBits = new Array[Int](Bins)
  private var parts: IndexedSeq[Part] = IndexedSeq.empty

  /** Call this after all rows have been weighed. */
  def cut(): Unit = {
    var last = -1
    var room = 0L
    (0 until Bins).filter(weights(_) > 0).foreach { bin =>
      if (weights(bin) > PartBytes) {
        hashBits(bin) = 64 - java.lang.Long.numberOfLeadingZeros((weights(bin) - 1) / PartBytes)
        firstPart(bin) = last + 1
        last += 1 << hashBits(bin)
        room = 0
      } else {
        if (weights(bin) > room) {
          last += 1
          room = PartBytes
        }
        room -= weights(bin)
        firstPart(bin) = last
      }
    }
    parts = IndexedSeq.fill(last + 1)(new Part)
  }

  private var held = 0L
  private var spilled = 0L

  /** The number of bytes that is worth spilling: enough for every part to fill a page. */
  private def worthSpilling: Long = math.max(PartBytes, 2L * parts.size * IndexMemory.PageBytes)

  def scatter(segment: Segment): Unit = segment.foreachLive { (_, place) =>
    segment.point(row, place)
    partOf(segment, place).add(row, segment.flags(place))
    if (canSpill && memory.exceeded && held >= worthSpilling) parts.foreach(_.spill())
  }

  private def partOf(segment: Segment, place: Int): Part = {
    val of = bin(segment, place)
    if (hashBits(of) == 0) parts(firstPart(of))
    else {
      val hash =
        Murmur3_x86_32.hashUnsafeWords(row.getBaseObject, row.getBaseOffset, row.getSizeInBytes, HashSeed)
      parts(firstPart(of) + (hash >>> (32 - hashBits(of))))
    }
  }

  /** The segments of the rows, built lazily, part by part. */
  def drain(): Iterator[Segment] = parts.iterator.flatMap(_.drain())

  final private class Part {
    private val rows = new WriteBuffer(layout, bucketWidth, memory)
    private val inStore = mutable.ArrayBuffer.empty[Long]

    def add(row: UnsafeRow, flags: Int): Unit = {
      val before = rows.bytes
      rows.append(row, flags): Unit
      held += rows.bytes - before
    }

    def spill(): Unit = {
      held -= rows.bytes
      rows.giveUp { page =>
        store.writePage(side, bucket, spilled, page)
        inStore += spilled
        spilled += 1
      }
    }

    def drain(): Seq[Segment] = {
      inStore.foreach(number => rows.takeBack(store.takePage(side, bucket, number)))
      inStore.clear()
      if (rows.isEmpty) Nil else rows.drain(Buckets.level(bucket))
    }
  }
}

private object Backlog {

  /** Bytes of rows that are sorted at once. */
  private val PartBytes = 8L << 20

  /** A bucket's span is divided into this many bins to determine the distribution of its rows. */
  private val BinBits = 12
  private val Bins = 1 << BinBits

  /** Different from the seed of the hash by which rows are sorted. */
  private val HashSeed = 1
}
