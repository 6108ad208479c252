package org.apache.spark.sql.streamjoin.state

import java.util.Arrays

import org.apache.spark.sql.catalyst.expressions.{UnsafeRow, XXH64}
import org.apache.spark.unsafe.Platform

/**
 * One row per key, in the state store of a [[JoinState]]. The rows are in pages ([[VersionPages]]),
 * which are written one after the other and committed with the store.
 *
 * The last row of a deleted key may be remembered for a while ([[delete]]).
 *
 * The keys of a page are sorted by their bytes, so that its contents depend only on the rows, not
 * on when they were written.
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
  import SegmentFormat.Page
  import VersionTable._

  private val before = segments.readVersionCounts()
  private var rows = before.fold(0L)(_.rows)
  private var deletions = before.fold(0L)(_.deletions)
  private val deleted = new Tombstones(segments)
  private val found = new UnsafeRow(fields)
  private val keyOfEntry = new UnsafeRow(keyFields)

  private val pages = new VersionPages(segments, before.fold(VersionPages.Empty)(_.pages), hashOf)
  if (before.exists(!_.hasPages)) moveToPages()

  /** Number of keys that have a row. */
  def size: Long = rows

  /** Number of keys that are remembered as deleted. */
  def deletedKeys: Long = deletions

  private[state] def isEmpty: Boolean = rows == 0 && deletions == 0

  /**
   * Makes room for rows that will be put. Without it, rows in the [[order]] of their keys fill a
   * page for long before it is divided.
   *
   * @param more
   *   the number of rows, at most
   * @param rowBytes
   *   bytes of all these rows
   */
  def expect(more: Long, rowBytes: Long): Unit =
    pages.grow(rows + deletions + more, rowBytes + more * (HeadBytes + 8L * (1 + keyFields)))

  /**
   * The row of a key, or null; valid until the next call.
   *
   * @param from
   *   a deletion that is remembered until this time or longer counts: its row is returned
   */
  def get(key: UnsafeRow, from: Long = Long.MaxValue): UnsafeRow = {
    val page = pages.of(hash(key))
    val at = find(page, key)
    if (at < 0 || isDeletion(page.bytes, at) && remembered(page.bytes, at) < from) null
    else {
      pointToRow(found, page.bytes, at)
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
    def isDue(entry: Array[Byte]) = isDeletion(entry, 0) && remembered(entry, 0) < time
    entries(pages.of(hash)).filter(isDue).toSeq.foreach(entry => remove(keyOf(entry)))
  }

  /**
   * Adds the entry of a key that has none.
   *
   * @param span
   *   how much longer than it is remembered a deletion may stay in the store
   */
  def add(entry: Array[Byte], span: Long): Unit = {
    if (isDeletion(entry, 0)) deleted.add(hashOf(entry), remembered(entry, 0), span)
    write(keyOf(entry), entry)
  }

  /** Removes the row of a key, without remembering it as deleted. */
  def remove(key: UnsafeRow): Unit = write(key, Array.emptyByteArray)

  /** @param entry new entry of the key; empty to remove it */
  private def write(key: UnsafeRow, entry: Array[Byte]): Unit = {
    if (entry.nonEmpty) pages.grow(rows + deletions + 1, entry.length.toLong)
    val page = pages.of(hash(key))
    val at = find(page, key)
    if (at >= 0) count(page.bytes, at, -1)
    if (entry.nonEmpty) count(entry, 0, 1)
    if (at >= 0) pages.replace(at, end(page.bytes, at), entry)
    else if (entry.nonEmpty) pages.replace(~at, ~at, entry)
  }

  private def count(content: Array[Byte], at: Int, by: Long): Unit =
    if (isDeletion(content, at)) deletions += by else rows += by

  /** Call it before the store is committed. */
  private[state] def writeSize(): Unit = {
    deleted.write()
    pages.write()
    val now = Option.unless(isEmpty)(VersionTable.Counts(rows, deletions, pages.size))
    if (now != before) now.fold(segments.removeVersionCounts())(segments.writeVersionCounts)
  }

  /** Moves the entries of a table into pages. An older version stored them by their hashes. */
  private def moveToPages(): Unit = {
    val (hashes, bytes) = segments.hashesWithoutPages
    pages.grow(rows + deletions, bytes)
    hashes.sorted.foreach { hash =>
      entries(segments.takeWithoutPage(hash)).foreach { entry =>
        val to = ~find(pages.of(hash), keyOf(entry))
        pages.replace(to, to, entry)
      }
    }
  }

  private def hashOf(entry: Array[Byte]): Long = hash(keyOf(entry))

  private def keyOf(entry: Array[Byte]): UnsafeRow = {
    pointToKey(keyOfEntry, entry)
    keyOfEntry
  }

  /** Where the entry of a key is; if there is none, the complement of where it belongs. */
  private def find(page: Page, key: UnsafeRow): Int = {
    val bytes = key.getBaseObject.asInstanceOf[Array[Byte]]
    val from = (key.getBaseOffset - Base).toInt
    def order(at: Int) = Arrays.compareUnsigned(
      page.bytes,
      at + HeadBytes,
      at + HeadBytes + keyBytes(page.bytes, at),
      bytes,
      from,
      from + key.getSizeInBytes
    )
    var at = page.from
    while (at < page.until && order(at) < 0) at = end(page.bytes, at)
    if (at < page.until && order(at) == 0) at else ~at
  }
}

/**
 * {{{
 *   entry of a row        key bytes | row bytes  | key | row
 *   entry of a deletion   key bytes | ~row bytes | key | row | remembered until
 * }}}
 */
private[streamjoin] object VersionTable {
  import SegmentFormat.Page

  private val Base = Platform.BYTE_ARRAY_OFFSET.toLong
  private val HeadBytes = 8
  private val UntilBytes = 8

  def hash(key: UnsafeRow): Long =
    XXH64.hashUnsafeBytes(key.getBaseObject, key.getBaseOffset, key.getSizeInBytes, 42L)

  /** The upper bits of the hash: who takes keys in this order accesses each page once. */
  def order(key: UnsafeRow): Int = (hash(key) >>> 32).toInt

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

  def pointToKey(row: UnsafeRow, entry: Array[Byte]): Unit =
    row.pointTo(entry, Base + HeadBytes, keyBytes(entry, 0))

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

  /** An entry with another key and row. */
  def changed(entry: Array[Byte], key: UnsafeRow, row: UnsafeRow): Array[Byte] =
    entryOf(key, row, Option.when(isDeletion(entry, 0))(remembered(entry, 0)))

  def entryOf(key: UnsafeRow, row: UnsafeRow, until: Option[Long]): Array[Byte] = {
    val (keySize, rowSize) = (key.getSizeInBytes, row.getSizeInBytes)
    val entry = new Array[Byte](HeadBytes + keySize + rowSize + until.fold(0)(_ => UntilBytes))
    Platform.putInt(entry, Base, keySize)
    Platform.putInt(entry, Base + 4, if (until.isDefined) ~rowSize else rowSize)
    key.writeToMemory(entry, Base + HeadBytes)
    row.writeToMemory(entry, Base + HeadBytes + keySize)
    until.foreach(Platform.putLong(entry, Base + HeadBytes + keySize + rowSize, _))
    entry
  }

  /**
   * What is recorded of a table with entries.
   *
   * @param rows
   *   number of keys that have a row
   * @param deletions
   *   number of deleted keys that are remembered
   */
  final case class Counts(rows: Long, deletions: Long, pages: VersionPages.Extent) {

    /** Not if an older version wrote it. */
    def hasPages: Boolean = pages.pages > 0
  }
}
