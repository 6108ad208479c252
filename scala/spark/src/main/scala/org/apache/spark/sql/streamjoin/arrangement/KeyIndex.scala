package org.apache.spark.sql.streamjoin.arrangement

import java.util.concurrent.locks.ReentrantReadWriteLock

import scala.collection.mutable

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow

/** A block that an index refers to; its bytes may be dropped and are read again then. */
private[streamjoin] trait LoadedBlock {
  def bytes: Array[Byte]
}

/**
 * One partition of one index, for all versions from `oldest` to `newest`: which rows a key had in
 * each of them. Tasks of many queries read it at the versions of their batches, while another
 * brings it to a newer one.
 *
 * A row has a version at which it came and one at which it went. Bytes of rows lie in blocks; here
 * are only places, 28 bytes a row.
 *
 * @param fields
 *   of a row
 * @param oldest
 *   of the versions that can be read
 */
final private[streamjoin] class KeyIndex(fields: Int, key: RowKey, val oldest: Long) {
  import KeyIndex._

  private val lock = new ReentrantReadWriteLock

  private var blocks = new Array[LoadedBlock](16)
  private var blockCount = 0

  // By the number of an entry.
  private var block = new Array[Int](InitialEntries)
  private var position = new Array[Int](InitialEntries)
  private var hashes = new Array[Int](InitialEntries)
  private var copies = new Array[Int](InitialEntries)
  private var from = new Array[Int](InitialEntries)
  private var to = new Array[Int](InitialEntries)
  private var next = new Array[Int](InitialEntries)
  private var entries = 0

  /** By [[headOf]] a hash: the newest entry, plus one. */
  private var heads = new Array[Int](InitialEntries * 2)

  private var dead = 0L
  private var negative = 0
  @volatile private var newestVersion = oldest - 1

  /** The newest version that can be read; before the first load, less than the oldest. */
  def newest: Long = newestVersion

  def covers(low: Long, high: Long): Boolean = oldest <= low && high <= newest

  /** In memory, without the blocks. */
  def bytes: Long = block.length * EntryBytes + heads.length * 4L

  /** Of the entries, those that are in no version from one on. */
  def goneShare(since: Long): Double = shared {
    if (dead * 2 < entries) 0 // so many have not gone at all
    else {
      val at = versionAt(since)
      var gone = 0
      var entry = 0
      while (entry < entries) {
        if (to(entry) <= at) gone += 1
        entry += 1
      }
      gone.toDouble / math.max(entries, 1)
    }
  }

  /** Not by the bits that decide the partition: they are the same for all hashes of one. */
  private def headOf(hash: Int): Int = {
    val mixed = hash * 0x9e3779b9
    (mixed ^ (mixed >>> 15)) & (heads.length - 1)
  }

  def entryCount: Int = shared(entries)

  def usedBlocks: Seq[LoadedBlock] = shared(blocks.take(blockCount).toSeq)

  /**
   * Brings the index to a version.
   *
   * @param changes
   *   of the version, each block with its number of bytes
   */
  def load(version: Long, changes: Iterator[(LoadedBlock, Int)]): Unit = exclusively {
    assert(version > newestVersion, s"version $version comes after $newestVersion")
    val at = Math.toIntExact(version - oldest)
    val row = new UnsafeRow(fields)
    changes.foreach { case (loaded, size) =>
      val number = addBlock(loaded)
      val bytes = loaded.bytes
      var offset = 0
      while (offset < size) {
        Block.point(row, bytes, offset)
        change(number, offset, row, Block.copies(bytes, offset), at)
        offset = Block.next(bytes, offset)
      }
    }
    newestVersion = version
  }

  /** So many copies of a row come, or go. What cancels leaves. */
  private def change(number: Int, offset: Int, row: UnsafeRow, count: Int, at: Int): Unit = {
    val hash = key.hash(row)
    var rest = count
    // Copies that come have something to cancel only where more have gone than were there.
    if (count < 0 || negative > 0) {
      val other = new UnsafeRow(fields)
      var entry = heads(headOf(hash)) - 1
      while (entry >= 0 && rest != 0) {
        // What is missing of a row is in one entry, so that entries count such rows.
        if (hashes(entry) == hash && to(entry) == Live && (copies(entry) < 0 || rest < 0)) {
          point(other, entry)
          // What does not fit into one entry is in another.
          if (other.equals(row) && (copies(entry).toLong + rest).isValidInt) rest = cancel(entry, rest, at)
        }
        entry = next(entry) - 1
      }
    }
    if (rest != 0) append(number, offset, hash, rest, at)
  }

  /**
   * An entry gives what it can of a number of copies, or takes them in; returns what is left of it.
   */
  private def cancel(entry: Int, rest: Int, at: Int): Int = {
    val sum = copies(entry) + rest
    to(entry) = at
    dead += 1
    if (copies(entry) < 0) negative -= 1
    if (sum == 0 || (sum < 0) == (rest < 0)) sum
    else {
      append(block(entry), position(entry), hashes(entry), sum, at)
      0
    }
  }

  private def append(number: Int, offset: Int, hash: Int, count: Int, at: Int): Unit = {
    if (entries == block.length) grow()
    val entry = entries
    block(entry) = number
    position(entry) = offset
    hashes(entry) = hash
    copies(entry) = count
    from(entry) = at
    to(entry) = Live
    val head = headOf(hash)
    next(entry) = heads(head)
    heads(head) = entry + 1
    entries += 1
    if (count < 0) negative += 1
  }

  private def grow(): Unit = {
    val size = Math.multiplyExact(entries, 2)
    def larger(of: Array[Int]) = java.util.Arrays.copyOf(of, size)
    block = larger(block)
    position = larger(position)
    hashes = larger(hashes)
    copies = larger(copies)
    from = larger(from)
    to = larger(to)
    next = larger(next)
    heads = new Array[Int](2 * size)
    var entry = 0
    while (entry < entries) {
      val head = headOf(hashes(entry))
      next(entry) = heads(head)
      heads(head) = entry + 1
      entry += 1
    }
  }

  private def point(row: UnsafeRow, entry: Int): Unit =
    Block.point(row, blocks(block(entry)).bytes, position(entry))

  /**
   * The rows of a key in a version.
   *
   * @param wanted
   *   a row with the key
   * @param hash
   *   of the key
   * @param probe
   *   of the calling task, which knows where the key is in it; finds the rows
   */
  def find(wanted: InternalRow, hash: Int, version: Long, probe: Probe): Unit = shared {
    val at = versionAt(version)
    val row = probe.row
    probe.clear()
    var entry = heads(headOf(hash)) - 1
    while (entry >= 0) {
      if (hashes(entry) == hash && from(entry) <= at && at < to(entry)) {
        point(row, entry)
        if (key.isSame(row, probe.wanted, wanted)) probe.add(row, copies(entry))
      }
      entry = next(entry) - 1
    }
  }

  /**
   * All rows of a version, with their number of copies. A row is valid until the next is asked for.
   */
  def rowsOf(version: Long): Iterator[(UnsafeRow, Int)] = {
    val (places, of) = shared {
      val at = versionAt(version)
      val found = new mutable.ArrayBuilder.ofInt
      var entry = 0
      while (entry < entries) {
        if (from(entry) <= at && at < to(entry)) {
          found += block(entry)
          found += position(entry)
          found += copies(entry)
        }
        entry += 1
      }
      // Blocks are added, never moved.
      (found.result(), blocks)
    }
    val row = new UnsafeRow(fields)
    Iterator.range(0, places.length, 3).map { i =>
      Block.point(row, of(places(i)).bytes, places(i + 1))
      (row, places(i + 2))
    }
  }

  /** How many different rows have a negative number of copies in the newest version. */
  def negativeRows: Int = shared(negative)

  private def versionAt(version: Long): Int = {
    assert(covers(version, version), s"version $version, of $oldest to $newest")
    Math.toIntExact(version - oldest)
  }

  /** A copy that can be read from a later version on, without the rows that are gone by then. */
  def from(version: Long): KeyIndex = shared {
    val copy = new KeyIndex(fields, key, version)
    copy.takeFrom(this, versionAt(version))
    copy
  }

  private def takeFrom(other: KeyIndex, at: Int): Unit = exclusively {
    val numbers = Array.fill(other.blockCount)(-1)
    // From the oldest entry on, so that chains have the same order.
    var entry = 0
    while (entry < other.entries) {
      if (other.to(entry) > at && other.from(entry) < other.to(entry)) {
        val number = other.block(entry)
        if (numbers(number) < 0) numbers(number) = addBlock(other.blocks(number))
        append(
          numbers(number),
          other.position(entry),
          other.hashes(entry),
          other.copies(entry),
          math.max(0, other.from(entry) - at)
        )
        if (other.to(entry) != Live) {
          to(entries - 1) = other.to(entry) - at
          dead += 1
          if (copies(entries - 1) < 0) negative -= 1
        }
      }
      entry += 1
    }
    newestVersion = other.newest
  }

  private def addBlock(loaded: LoadedBlock): Int = {
    if (blockCount == blocks.length) blocks = java.util.Arrays.copyOf(blocks, 2 * blockCount)
    blocks(blockCount) = loaded
    blockCount += 1
    blockCount - 1
  }

  private def exclusively[T](body: => T): T = {
    lock.writeLock.lock()
    try body
    finally lock.writeLock.unlock()
  }

  private def shared[T](body: => T): T = {
    lock.readLock.lock()
    try body
    finally lock.readLock.unlock()
  }
}

private[streamjoin] object KeyIndex {
  private val InitialEntries = 64
  private val EntryBytes = 28L

  /** The version at which a row goes that has not gone. */
  private val Live = Int.MaxValue
}
