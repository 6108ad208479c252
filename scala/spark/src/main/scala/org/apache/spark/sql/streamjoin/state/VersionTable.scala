package org.apache.spark.sql.streamjoin.state

import org.apache.spark.sql.catalyst.expressions.{UnsafeRow, XXH64}
import org.apache.spark.unsafe.Platform
import org.apache.spark.unsafe.types.ByteArray

/**
 * One row per key, in the state store of a [[JoinState]]; keys with the same hash share a value. A
 * change is written to the store immediately and committed with it.
 *
 * The last row of a deleted key may be remembered for a while ([[delete]]).
 *
 * The keys of a value are sorted by their bytes, so that the contents of the store depend only on
 * the rows, not on when they were written.
 *
 * @param keyFields
 *   number of fields of a key
 * @param fields
 *   number of fields of a row
 * @param hash
 *   hash of a key
 */
final private[streamjoin] class VersionTable private[state] (
    segments: SegmentStore,
    keyFields: Int,
    fields: Int,
    hash: UnsafeRow => Long
) {
  import VersionTable._

  private val countsBefore = segments.readVersionCounts()
  private var (rows, deletions) = countsBefore
  private val deleted = new Tombstones(segments)
  private val found = new UnsafeRow(fields)
  private val otherKey = new UnsafeRow(keyFields)

  /** The value that was read last: it is usually the one to change next. */
  private var last: Value = _

  /** Number of keys that have a row. */
  def size: Long = rows

  /** Number of keys that are remembered as deleted. */
  def deletedKeys: Long = deletions

  private[state] def isEmpty: Boolean = rows == 0 && deletions == 0

  /**
   * The row of a key, or null; valid until the next call.
   *
   * @param from
   *   a deletion that is remembered until this time or longer counts: its row is returned
   */
  def get(key: UnsafeRow, from: Long = Long.MaxValue): UnsafeRow = {
    val entries = read(hash(key))
    val at = find(entries, key)
    if (at < 0 || isDeletion(entries, at) && remembered(entries, at) < from) null
    else {
      pointToRow(found, entries, at)
      found
    }
  }

  def put(key: UnsafeRow, row: UnsafeRow): Unit = write(key, entryOf(key, row, None))

  /**
   * Deletes the row of a key.
   *
   * @param row
   *   the row of the delete
   * @param until
   *   time until which the deletion is remembered
   * @param span
   *   how much longer it may stay in the store
   */
  def delete(key: UnsafeRow, row: UnsafeRow, until: Long, span: Long): Unit = {
    write(key, entryOf(key, row, Some(until)))
    deleted.add(hash(key), until, span)
  }

  /** Drops deletions that had to be remembered until before `time`; some stay a little longer. */
  def forget(time: Long): Unit = deleted.take(time) { hash =>
    val before = entriesOf(read(hash))
    val (due, rest) = before.partition(entry => isDeletion(entry, 0) && remembered(entry, 0) < time)
    if (due.nonEmpty) {
      deletions -= due.size.toLong
      write(hash, ByteArray.concat(rest: _*))
    }
  }

  /**
   * Adds the entry of a key that has none.
   *
   * @param span
   *   how much longer than it is remembered a deletion may stay in the store
   */
  def add(entry: Array[Byte], span: Long): Unit = {
    // A row of its own: looking for the key moves the one that all look-ups share.
    val key = new UnsafeRow(keyFields)
    pointToKey(key, entry)
    if (isDeletion(entry, 0)) deleted.add(hash(key), remembered(entry, 0), span)
    write(key, entry)
  }

  /** Removes the row of a key, without remembering it as deleted. */
  def remove(key: UnsafeRow): Unit = write(key, Array.emptyByteArray)

  /** @param entry new entry of the key; empty to remove it */
  private def write(key: UnsafeRow, entry: Array[Byte]): Unit = {
    val keyHash = hash(key)
    val before = read(keyHash)
    val at = find(before, key)
    if (at >= 0) count(before, at, -1)
    if (entry.nonEmpty) count(entry, 0, 1)
    if (isAlone(before, at)) { if (at >= 0 || entry.nonEmpty) write(keyHash, entry) }
    else {
      val after = others(before, key) ++ Option.when(entry.nonEmpty)(entry)
      write(keyHash, ByteArray.concat(after.sortWith((a, b) => compareKeys(a, b) < 0): _*))
    }
  }

  private def count(content: Array[Byte], at: Int, by: Long): Unit =
    if (isDeletion(content, at)) deletions += by else rows += by

  /** Call it before the store is committed. */
  private[state] def writeSize(): Unit = {
    deleted.write()
    if ((rows, deletions) != countsBefore) segments.writeVersionCounts(rows, deletions)
  }

  private def read(hash: Long): Array[Byte] = {
    if (last == null || last.hash != hash)
      last = Value(hash, segments.readVersions(hash).getOrElse(Array.emptyByteArray))
    last.entries
  }

  private def write(hash: Long, entries: Array[Byte]): Unit = {
    if (entries.nonEmpty) segments.writeVersions(hash, entries) else segments.removeVersions(hash)
    last = null
  }

  /** Whether no key other than that of the entry at `at` has the hash. */
  private def isAlone(entries: Array[Byte], at: Int): Boolean =
    entries.isEmpty || at == 0 && end(entries, 0) == entries.length

  private def others(entries: Array[Byte], key: UnsafeRow): Seq[Array[Byte]] =
    entriesOf(entries).filterNot(pointedToKey(_) == key)

  private def entriesOf(content: Array[Byte]): Seq[Array[Byte]] = entries(content).toSeq

  private def pointedToKey(entry: Array[Byte]): UnsafeRow = {
    pointToKey(otherKey, entry, 0)
    otherKey
  }

  private def find(content: Array[Byte], key: UnsafeRow): Int = {
    var at = 0
    var result = -1
    while (result < 0 && at < content.length) {
      pointToKey(otherKey, content, at)
      if (otherKey == key) result = at
      at = end(content, at)
    }
    result
  }

  private def pointToRow(row: UnsafeRow, content: Array[Byte], at: Int): Unit =
    row.pointTo(content, Base + at + HeadBytes + keyBytes(content, at), rowBytes(content, at))
}

/**
 * {{{
 *   entry of a row        key bytes | row bytes  | key | row
 *   entry of a deletion   key bytes | ~row bytes | key | row | remembered until
 * }}}
 */
private[state] object VersionTable {
  private val Base = Platform.BYTE_ARRAY_OFFSET.toLong
  private val HeadBytes = 8
  private val UntilBytes = 8

  def hash(key: UnsafeRow): Long =
    XXH64.hashUnsafeBytes(key.getBaseObject, key.getBaseOffset, key.getSizeInBytes, 42L)

  /** The rows of some entries, and whether each is a remembered deletion. */
  def rows(entries: Array[Byte], fields: Int): Iterator[(UnsafeRow, Boolean)] = Iterator.unfold(0) { at =>
    Option.when(at < entries.length) {
      val row = new UnsafeRow(fields)
      row.pointTo(entries, Base + at + HeadBytes + keyBytes(entries, at), rowBytes(entries, at))
      (row -> isDeletion(entries, at), end(entries, at))
    }
  }

  /** The entries of a value, each by itself. */
  def entries(content: Array[Byte]): Iterator[Array[Byte]] = Iterator.unfold(0) { at =>
    Option.when(at < content.length)((content.slice(at, end(content, at)), end(content, at)))
  }

  def pointToKey(row: UnsafeRow, content: Array[Byte], at: Int = 0): Unit =
    row.pointTo(content, Base + at + HeadBytes, keyBytes(content, at))

  private def keyBytes(content: Array[Byte], at: Int): Int = Platform.getInt(content, Base + at)

  private def rowLength(content: Array[Byte], at: Int): Int = Platform.getInt(content, Base + at + 4)
  private def isDeletion(content: Array[Byte], at: Int): Boolean = rowLength(content, at) < 0
  private def rowBytes(content: Array[Byte], at: Int): Int = {
    val length = rowLength(content, at)
    if (length < 0) ~length else length
  }

  private def rowEnd(content: Array[Byte], at: Int): Int =
    at + HeadBytes + keyBytes(content, at) + rowBytes(content, at)

  private def end(content: Array[Byte], at: Int): Int =
    rowEnd(content, at) + (if (isDeletion(content, at)) UntilBytes else 0)

  private def remembered(content: Array[Byte], at: Int): Long =
    Platform.getLong(content, Base + rowEnd(content, at))

  private def compareKeys(one: Array[Byte], other: Array[Byte]): Int = {
    def key(entry: Array[Byte]) = entry.slice(HeadBytes, HeadBytes + keyBytes(entry, 0))
    ByteArray.compareBinary(key(one), key(other))
  }

  /** An entry with another key and row. */
  def changed(entry: Array[Byte], key: UnsafeRow, row: UnsafeRow): Array[Byte] =
    entryOf(key, row, Option.when(isDeletion(entry, 0))(remembered(entry, 0)))

  private def entryOf(key: UnsafeRow, row: UnsafeRow, until: Option[Long]): Array[Byte] = {
    val (keySize, rowSize) = (key.getSizeInBytes, row.getSizeInBytes)
    val entry = new Array[Byte](HeadBytes + keySize + rowSize + until.fold(0)(_ => UntilBytes))
    Platform.putInt(entry, Base, keySize)
    Platform.putInt(entry, Base + 4, if (until.isDefined) ~rowSize else rowSize)
    key.writeToMemory(entry, Base + HeadBytes)
    row.writeToMemory(entry, Base + HeadBytes + keySize)
    until.foreach(Platform.putLong(entry, Base + HeadBytes + keySize + rowSize, _))
    entry
  }

  /** All entries of the keys with a hash. */
  final private case class Value(hash: Long, entries: Array[Byte])
}
