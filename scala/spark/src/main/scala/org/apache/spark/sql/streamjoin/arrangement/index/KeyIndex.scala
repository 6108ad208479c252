package org.apache.spark.sql.streamjoin.arrangement.index

import java.util.concurrent.atomic.LongAdder
import java.util.concurrent.locks.ReentrantReadWriteLock

import scala.collection.mutable

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.streamjoin.arrangement.storage.{Block, RowKey}
import org.apache.spark.unsafe.hash.Murmur3_x86_32

/**
 * One partition of one index: the rows that each key has in every version from `oldest` to
 * `newest`. Tasks of many queries read it at the versions of their batches, while another task
 * advances it. [[IndexRegistry]] has a picture.
 *
 * An entry has the version that added a row and the version that removed it. The bytes of the row
 * are in a block; an entry only points to them, with 36 bytes.
 *
 * Chains lead from a key to its entries, and a removal searches them for its row. This takes long
 * if many rows have the same key, or none. Once removals have taken `patience` steps per entry,
 * additional chains lead from the hash of a whole row to its entries, with 16 bytes per entry. If
 * rows are dropped by their time, a heap finds the oldest entries, with 12 bytes per entry.
 * Once look-ups have passed `patience` unneeded entries per entry, a copy without those costs less.
 *
 * @param fields
 *   number of columns of a row
 * @param oldest
 *   oldest version that can be read
 */
final private[streamjoin] class KeyIndex(
    fields: Int,
    key: RowKey,
    val oldest: Long,
    patience: Int = KeyIndex.Patience
) {
  import KeyIndex._

  private val lock = new ReentrantReadWriteLock

  private var blocks = new Array[LoadedBlock](16)
  private var blockCount = 0

  private val entries = new IndexEntries(InitialEntries)
  private val byKey = new HashChains(InitialEntries)
  private var byRow = Option.empty[HashChains]
  private var byTime = Option.empty[ByTime]

  /** Steps of removals along chains, not counting the first ones of each removal. */
  private var steps = 0L

  private var dead = 0L
  private var negative = 0
  @volatile private var newestVersion = oldest - 1

  /** No reader needs the entries that were removed up to this version. */
  @volatile private var neededAt = 0

  /** How many of them look-ups have passed. */
  private val wasted = new LongAdder

  /** The newest version that can be read; lower than the oldest before the first load. */
  def newest: Long = newestVersion

  def covers(low: Long, high: Long): Boolean = oldest <= low && high <= newest

  /** Bytes in memory, without the blocks. */
  def bytes: Long = entries.bytes + byKey.bytes + byRow.fold(0L)(_.bytes) + byTime.fold(0L)(_.heap.bytes)

  /** The share of entries that are in no version from `since` on. */
  def goneShare(since: Long): Double = shared {
    if (dead * 2 < entries.size) 0 // most of them have not been removed
    else {
      val at = versionAt(since)
      var gone = 0
      var entry = 0
      while (entry < entries.size) {
        if (entries.to(entry) <= at) gone += 1
        entry += 1
      }
      gone.toDouble / math.max(entries.size, 1)
    }
  }

  def entryCount: Int = shared(entries.size)

  /** No reader needs the versions before the given one any longer. */
  def needOnlyFrom(version: Long): Unit = if (version > oldest) neededAt = versionAt(version)

  /** Whether look-ups have passed many entries that no reader needs. */
  def isWorn: Boolean = wasted.sum > patience.toLong * math.max(entryCount, InitialEntries)

  def usedBlocks: Seq[LoadedBlock] = shared(blocks.take(blockCount).toSeq)

  /**
   * Advances the index to a version.
   *
   * @param changes
   *   blocks with the changes of the version, each with its number of bytes
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

  /**
   * Adds copies of a row, or removes them if negative. Copies that cancel out end their entries.
   */
  private def change(number: Int, offset: Int, row: UnsafeRow, count: Int, at: Int): Unit = {
    val hash = key.hash(row)
    var rest = count
    // Added copies can cancel others only if more were removed than there were.
    if (count < 0 || negative > 0) {
      val (chains, wanted) = byRow.fold((byKey, hash))(rows => (rows, rowHash(row)))
      val other = new UnsafeRow(fields)
      var entry = chains.first(wanted)
      var walked = 0
      while (entry >= 0 && rest != 0) {
        // All missing copies of a row share one entry, so `negative` counts rows.
        if (chains.hash(entry) == wanted && entries.isLive(entry)) {
          val known = entries.copies(entry)
          if (known < 0 || rest < 0) {
            point(other, entry)
            // Copies that would overflow an entry go into another one.
            if (other.equals(row) && (known.toLong + rest).isValidInt) rest = cancel(entry, rest, at)
          }
        }
        entry = chains.next(entry)
        walked += 1
      }
      steps += math.max(0, walked - ShortWalk)
      if (byRow.isEmpty && steps > patience.toLong * math.max(entries.size, InitialEntries)) chainRows()
    }
    if (rest != 0) append(number, offset, hash, rest, at)
  }

  private def chainRows(): Unit = {
    val chains = new HashChains(entries.capacity)
    val row = new UnsafeRow(fields)
    var entry = 0
    while (entry < entries.size) {
      point(row, entry)
      chains.add(rowHash(row))
      entry += 1
    }
    byRow = Some(chains)
  }

  private def rowHash(row: UnsafeRow): Int =
    Murmur3_x86_32.hashUnsafeWords(row.getBaseObject, row.getBaseOffset, row.getSizeInBytes, 0)

  /** How many steps removals have taken along chains, beyond the usual number. */
  private[index] def extraChainSteps: Long = shared(steps)

  /** Cancels copies against an entry, or merges them with it; returns the remaining copies. */
  private def cancel(entry: Int, rest: Int, at: Int): Int = {
    val sum = entries.copies(entry) + rest
    end(entry, at)
    if (sum == 0 || (sum < 0) == (rest < 0)) sum
    else {
      append(entries.block(entry), entries.position(entry), byKey.hash(entry), sum, at)
      0
    }
  }

  private def append(number: Int, offset: Int, hash: Int, count: Int, at: Int): Unit = {
    val entry = entries.add(number, offset, count, at)
    byKey.add(hash)
    if (byRow.isDefined || byTime.isDefined) {
      val row = new UnsafeRow(fields)
      point(row, entry)
      byRow.foreach(_.add(rowHash(row)))
      byTime.foreach(_.add(entry, row))
    }
    if (count < 0) negative += 1
  }

  private def end(entry: Int, at: Int): Unit = {
    entries.end(entry, at)
    dead += 1
    if (entries.copies(entry) < 0) negative -= 1
  }

  private def point(row: UnsafeRow, entry: Int): Unit =
    Block.point(row, blocks(entries.block(entry)).bytes, entries.position(entry))

  /**
   * Finds the rows of a key in a version.
   *
   * @param wanted
   *   row with the key
   * @param hash
   *   hash of the key
   * @param probe
   *   probe of the calling task, which knows the position of the key in `wanted` and receives the
   *   rows
   */
  def find(wanted: InternalRow, hash: Int, version: Long, probe: ProbeResult): Unit = shared {
    val at = versionAt(version)
    val row = probe.row
    probe.clear()
    val needed = neededAt
    var gone = 0
    var entry = byKey.first(hash)
    while (entry >= 0) {
      if (byKey.hash(entry) == hash) {
        if (entries.isIn(entry, at)) {
          point(row, entry)
          if (key.isSame(row, probe.wanted, wanted)) probe.add(row, entries.copies(entry))
        } else if (entries.to(entry) <= needed) gone += 1
      }
      entry = byKey.next(entry)
    }
    if (gone > 0) wasted.add(gone.toLong)
  }

  /**
   * Reads what [[find]] will need for the keys of a group. A processor overlaps accesses to memory
   * that do not depend on each other, as those of different keys do not.
   */
  def readAhead(group: KeyGroup): Unit = shared {
    var read = 0
    var i = 0
    while (i < group.size) {
      group.entries(i) = byKey.first(group.hashes(i))
      i += 1
    }
    i = 0
    while (i < group.size) {
      val entry = group.entries(i)
      if (entry >= 0) read += byKey.hash(entry) + entries.from(entry)
      i += 1
    }
    i = 0
    while (i < group.size) {
      val entry = group.entries(i)
      if (entry >= 0) {
        val bytes = blocks(entries.block(entry)).bytesInMemory
        if (bytes != null) read += Block.length(bytes, entries.position(entry))
      }
      i += 1
    }
    group.read = read
  }

  /**
   * The rows of a version, with their number of copies. A row is valid until the next one is read.
   *
   * @param isWanted
   *   by the hash of its key, whether a row is wanted; others are not read
   */
  def rowsOf(version: Long, isWanted: Int => Boolean = _ => true): Iterator[(UnsafeRow, Int)] =
    rowsAt(shared {
      val at = versionAt(version)
      val found = new Places
      var entry = 0
      while (entry < entries.size) {
        if (entries.isIn(entry, at) && isWanted(byKey.hash(entry))) found.add(entry)
        entry += 1
      }
      found
    })

  /**
   * The rows of a version whose time is before a limit, with their number of copies. A row is valid
   * until the next one is read.
   */
  def rowsBefore(limit: Long, timeOf: RowTime, version: Long): Iterator[(UnsafeRow, Int)] =
    rowsAt(exclusively {
      val at = versionAt(version)
      // Entries that were removed in a later version may be missing.
      if (!byTime.exists(_.lastAt <= at)) byTime = Some(orderByTime(timeOf))
      byTime.get.lastAt = at
      val found = new Places
      byTime.get.heap
        .before(limit, entries.to(_) <= at)
        .foreach(entry => if (entries.isIn(entry, at)) found.add(entry))
      found
    })

  private def orderByTime(timeOf: RowTime): ByTime = {
    val ordered = new ByTime(timeOf)
    val row = new UnsafeRow(fields)
    var entry = 0
    while (entry < entries.size) {
      point(row, entry)
      ordered.add(entry, row)
      entry += 1
    }
    ordered
  }

  /**
   * The locations of the rows of entries, to be read without the lock: blocks are added, never
   * moved.
   */
  final private class Places {
    private val found = new mutable.ArrayBuilder.ofInt
    val in: Array[LoadedBlock] = blocks

    def add(entry: Int): Unit = {
      found += entries.block(entry)
      found += entries.position(entry)
      found += entries.copies(entry)
    }

    def all: Array[Int] = found.result()
  }

  private def rowsAt(found: Places): Iterator[(UnsafeRow, Int)] = {
    val (places, of) = (found.all, found.in)
    val row = new UnsafeRow(fields)
    Iterator.range(0, places.length, 3).map { i =>
      Block.point(row, of(places(i)).bytes, places(i + 1))
      (row, places(i + 2))
    }
  }

  /** The number of distinct rows with negative copies in the newest version. */
  def negativeRows: Int = shared(negative)

  private def versionAt(version: Long): Int = {
    assert(covers(version, version), s"version $version, of $oldest to $newest")
    Math.toIntExact(version - oldest)
  }

  /** A copy that starts at a later version, without the rows removed by then. */
  def from(version: Long): KeyIndex = shared {
    val copy = new KeyIndex(fields, key, version, patience)
    copy.takeFrom(this, versionAt(version))
    copy
  }

  private def takeFrom(other: KeyIndex, at: Int): Unit = exclusively {
    val numbers = Array.fill(other.blockCount)(-1)
    val old = other.entries
    // Starting with the oldest entry, so that chains keep their order.
    var entry = 0
    while (entry < old.size) {
      if (old.to(entry) > at && old.from(entry) < old.to(entry)) {
        val number = old.block(entry)
        if (numbers(number) < 0) numbers(number) = addBlock(other.blocks(number))
        append(
          numbers(number),
          old.position(entry),
          other.byKey.hash(entry),
          old.copies(entry),
          math.max(0, old.from(entry) - at)
        )
        if (!old.isLive(entry)) end(entries.size - 1, old.to(entry) - at)
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

  private val Patience = 16
  private val ShortWalk = 32
}
