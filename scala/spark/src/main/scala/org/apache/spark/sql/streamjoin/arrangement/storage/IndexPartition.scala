package org.apache.spark.sql.streamjoin.arrangement.storage

import scala.annotation.tailrec
import scala.collection.mutable

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.unsafe.Platform

/**
 * The rows that one partition of an index has: those whose hash modulo `of` is `number`. Files may
 * have been written with another number of partitions. So a reader takes the blocks that can have
 * such rows, and leaves out the other rows of these blocks.
 *
 * {{{
 *   written with 4        0   1   2   3
 *   read with 2, part 0   0       2      all rows of these blocks
 *   read with 8, part 6           2      half of its rows
 *   read with 6, part 3       1       3  a third of their rows
 * }}}
 *
 * A hash h with h mod w = b and h mod n = p exists if and only if b and p are equal modulo the
 * greatest common divisor of w and n.
 *
 * @param of
 *   number of partitions of the reader
 * @param key
 *   key of the index
 * @param fields
 *   number of columns of a row
 */
final private[streamjoin] class IndexPartition(val number: Int, val of: Int, key: RowKey, fields: Int) {
  import IndexPartition._

  /**
   * @param written
   *   number of partitions with which the block was written
   */
  def canBeIn(block: BlockRef, written: Int): Boolean =
    Math.floorMod(block.partition - number, divisor(of, written)) == 0

  /** Whether all rows of each block that it can be in belong to it. */
  def takesAll(written: Int): Boolean = written % of == 0

  /** The rows of a block that belong to each partition of the reader, as blocks. */
  def divide(block: Array[Byte]): IndexedSeq[Array[Byte]] = {
    val owners = new mutable.ArrayBuilder.ofInt
    val sizes = new Array[Int](of)
    val row = new UnsafeRow(fields)
    rowsOf(block) { (at, size) =>
      Block.point(row, block, at)
      val owner = key.partition(row, of)
      owners += owner
      sizes(owner) += size
    }
    val parts = sizes.map(size => if (size == 0) Empty else new Array[Byte](size))
    val (ofRows, used) = (owners.result().iterator, new Array[Int](of))
    rowsOf(block) { (at, size) =>
      val owner = ofRows.next()
      Platform.copyMemory(block, Start + at, parts(owner), Start + used(owner), size.toLong)
      used(owner) += size
    }
    parts.toIndexedSeq
  }
}

private[streamjoin] object IndexPartition {
  private val Start = Platform.BYTE_ARRAY_OFFSET.toLong
  private val Empty = Array.emptyByteArray

  def apply(meta: ArrangementMeta, index: Int, number: Int): IndexPartition =
    new IndexPartition(number, meta.partitions, RowKey.of(meta, index), meta.schema.length)

  /** Calls a function with the position and the size of each row. */
  private def rowsOf(block: Array[Byte])(use: (Int, Int) => Unit): Unit = {
    var at = 0
    while (at < block.length) {
      val next = Block.next(block, at)
      use(at, next - at)
      at = next
    }
  }

  /** The greatest common divisor. */
  @tailrec
  private def divisor(one: Int, other: Int): Int = if (other == 0) one else divisor(other, one % other)
}
