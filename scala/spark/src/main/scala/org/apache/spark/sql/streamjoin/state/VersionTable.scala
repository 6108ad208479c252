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
  import SegmentFormat.{NoPage, Page}
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
    if (at < 0 || isDeletion(entries.bytes, at) && remembered(entries.bytes, at) < from) null
    else {
      pointToRow(found, entries.bytes, at)
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
    val (due, rest) =
      entries(read(hash)).toSeq.partition(entry => isDeletion(entry, 0) && remembered(entry, 0) < time)
    if (due.nonEmpty) {
      deletions -= due.size.toLong
      write(hash, pageOf(rest))
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
    write(key, SegmentFormat.newPage(entry))
  }

  /** Removes the row of a key, without remembering it as deleted. */
  def remove(key: UnsafeRow): Unit = write(key, NoPage)

  /** @param entry a page with the new entry of the key; empty to remove it */
  private def write(key: UnsafeRow, entry: Page): Unit = {
    val keyHash = hash(key)
    val before = read(keyHash)
    val at = find(before, key)
    if (at >= 0) count(before.bytes, at, -1)
    if (!entry.isEmpty) count(entry.bytes, entry.from, 1)
    if (isAlone(before, at)) { if (at >= 0 || !entry.isEmpty) write(keyHash, entry) }
    else {
      val after = entries(before).filterNot(pointedToKey(_) == key) ++ entries(entry)
      write(keyHash, pageOf(after.toSeq.sortWith((a, b) => compareKeys(a, b) < 0)))
    }
  }

  private def count(content: Array[Byte], at: Int, by: Long): Unit =
    if (isDeletion(content, at)) deletions += by else rows += by

  /** Call it before the store is committed. */
  private[state] def writeSize(): Unit = {
    deleted.write()
    if ((rows, deletions) != countsBefore) segments.writeVersionCounts(rows, deletions)
  }

  private def read(hash: Long): Page = {
    if (last == null || last.hash != hash) last = Value(hash, segments.readVersions(hash))
    last.entries
  }

  private def write(hash: Long, entries: Page): Unit = {
    if (entries.isEmpty) segments.removeVersions(hash) else segments.writeVersions(hash, entries)
    last = null
  }

  /** Whether no key other than that of the entry at `at` has the hash. */
  private def isAlone(entries: Page, at: Int): Boolean =
    entries.isEmpty || at == entries.from && end(entries.bytes, at) == entries.until

  private def pointedToKey(entry: Array[Byte]): UnsafeRow = {
    pointToKey(otherKey, entry, 0)
    otherKey
  }

  private def find(entries: Page, key: UnsafeRow): Int = {
    var at = entries.from
    var result = -1
    while (result < 0 && at < entries.until) {
      pointToKey(otherKey, entries.bytes, at)
      if (otherKey == key) result = at
      at = end(entries.bytes, at)
    }
    result
  }
}

/**
 * {{{
 *   entry of a row        key bytes | row bytes  | key | row
 *   entry of a deletion   key bytes | ~row bytes | key | row | remembered until
 * }}}
 */
private[state] object VersionTable {
  import SegmentFormat.Page

  private val Base = Platform.BYTE_ARRAY_OFFSET.toLong
  private val HeadBytes = 8
  private val UntilBytes = 8

  def hash(key: UnsafeRow): Long =
    XXH64.hashUnsafeBytes(key.getBaseObject, key.getBaseOffset, key.getSizeInBytes, 42L)

  /** The row of an entry, and whether it is a remembered deletion. */
  def row(entry: Array[Byte], fields: Int): (UnsafeRow, Boolean) = {
    val row = new UnsafeRow(fields)
    pointToRow(row, entry, 0)
    row -> isDeletion(entry, 0)
  }

  /** The entries of a value, each by itself. */
  def entries(value: Page): Iterator[Array[Byte]] = Iterator.unfold(value.from) { at =>
    Option.when(at < value.until)((value.bytes.slice(at, end(value.bytes, at)), end(value.bytes, at)))
  }

  private def pageOf(entries: Seq[Array[Byte]]): Page = SegmentFormat.newPage(ByteArray.concat(entries: _*))

  def pointToKey(row: UnsafeRow, content: Array[Byte], at: Int = 0): Unit =
    row.pointTo(content, Base + at + HeadBytes, keyBytes(content, at))

  private def pointToRow(row: UnsafeRow, content: Array[Byte], at: Int): Unit =
    row.pointTo(content, Base + at + HeadBytes + keyBytes(content, at), rowBytes(content, at))

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
    entries(entryOf(key, row, Option.when(isDeletion(entry, 0))(remembered(entry, 0)))).next()

  /** A page with one entry. */
  private def entryOf(key: UnsafeRow, row: UnsafeRow, until: Option[Long]): Page = {
    val (keySize, rowSize) = (key.getSizeInBytes, row.getSizeInBytes)
    val page = SegmentFormat.newPage(HeadBytes + keySize + rowSize + until.fold(0)(_ => UntilBytes))
    val entry = Base + page.from
    Platform.putInt(page.bytes, entry, keySize)
    Platform.putInt(page.bytes, entry + 4, if (until.isDefined) ~rowSize else rowSize)
    key.writeToMemory(page.bytes, entry + HeadBytes)
    row.writeToMemory(page.bytes, entry + HeadBytes + keySize)
    until.foreach(Platform.putLong(page.bytes, entry + HeadBytes + keySize + rowSize, _))
    page
  }

  /** All entries of the keys with a hash. */
  final private case class Value(hash: Long, entries: Page)
}
