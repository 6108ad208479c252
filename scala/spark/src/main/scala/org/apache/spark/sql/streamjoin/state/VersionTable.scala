package org.apache.spark.sql.streamjoin.state

import java.util.{Arrays, Comparator, HashMap => JHashMap}

import org.apache.spark.sql.catalyst.expressions.{UnsafeRow, XXH64}
import org.apache.spark.unsafe.Platform
import org.apache.spark.unsafe.types.ByteArray

/**
 * One row for each key, in the state store of a [[JoinState]]: the rows of the keys with one hash
 * are one value. What a batch changes is in memory until [[write]], or until memory is short.
 *
 * The keys of a value are in the order of their bytes, so that what is in the store follows from
 * the rows alone, whenever they were written.
 *
 * @param keyFields
 *   of a key
 * @param fields
 *   of a row
 * @param hash
 *   of a key
 */
final private[streamjoin] class VersionTable private[state] (
    segments: SegmentStore,
    memory: IndexMemory,
    keyFields: Int,
    fields: Int,
    hash: UnsafeRow => Long
) {
  import VersionTable._

  private val changed = new JHashMap[UnsafeRow, Change]
  private var bytes = 0L

  /** What was last looked up: mostly it is changed next. */
  private var lastRead: Option[Value] = None

  private var keys = segments.readVersionCount()
  private var keysInStore = keys
  private val found = new UnsafeRow(fields)
  private val otherKey = new UnsafeRow(keyFields)

  /** How many keys have a row, once the batch is written. */
  def size: Long = keys

  /** The row of a key, or null; it is valid until the next call. */
  def get(key: UnsafeRow): UnsafeRow = {
    val change = changed.get(key)
    if (change != null) change.row
    else {
      val value = read(hash(key))
      lastRead = Some(value)
      val at = find(value.entries, key)
      if (at < 0) null
      else {
        pointToRow(found, value.entries, at)
        found
      }
    }
  }

  private def read(hash: Long): Value =
    Value(hash, segments.readVersions(hash).getOrElse(Array.emptyByteArray))

  def put(key: UnsafeRow, row: UnsafeRow): Unit = change(key, row.copy())

  def remove(key: UnsafeRow): Unit = change(key, null)

  private def change(key: UnsafeRow, row: UnsafeRow): Unit = {
    val known = changed.get(key)
    if (known != null) {
      count(sizeOf(row) - sizeOf(known.row))
      known.row = row
    } else {
      val own = key.copy()
      val keyHash = hash(own)
      val before = lastRead.filter(_.hash == keyHash).map(_.entries).orNull
      count(EntryBytes + own.getSizeInBytes + sizeOf(row) + (if (before == null) 0 else before.length))
      changed.put(own, new Change(keyHash, own, row, before)): Unit
    }
    if (memory.exceeded) write()
  }

  private def sizeOf(row: UnsafeRow): Int = if (row == null) 0 else row.getSizeInBytes

  private def count(change: Int): Unit = {
    bytes += change
    memory.add(change.toLong)
  }

  /** Hands what has changed to the store, which is not committed by that. */
  private[state] def write(): Unit = {
    val all = changed.values.toArray(new Array[Change](changed.size))
    Arrays.sort(all, Change.byHash)
    var from = 0
    while (from < all.length) {
      var until = from + 1
      while (until < all.length && all(until).hash == all(from).hash) until += 1
      write(all, from, until)
      from = until
    }
    if (keys != keysInStore) segments.writeVersionCount(keys)
    keysInStore = keys
    changed.clear()
    lastRead = None
    memory.add(-bytes)
    bytes = 0
  }

  /** Changes of keys with one hash: mostly there is one, of the only key with it. */
  private def write(changes: Array[Change], from: Int, until: Int): Unit = {
    val first = changes(from)
    val before = if (first.before != null) first.before else read(first.hash).entries
    if (until == from + 1 && isOnly(first.key, before)) {
      if (first.row != null) {
        segments.writeVersions(first.hash, entryOf(first.key, first.row))
        if (before.isEmpty) keys += 1
      } else if (before.nonEmpty) {
        segments.removeVersions(first.hash)
        keys -= 1
      }
    } else merge(first.hash, before, changes.slice(from, until).toIndexedSeq)
  }

  /** There is no other key among entries. */
  private def isOnly(key: UnsafeRow, entries: Array[Byte]): Boolean =
    entries.isEmpty || end(entries, 0) == entries.length && find(entries, key) == 0

  private def merge(hash: Long, entries: Array[Byte], changes: Seq[Change]): Unit = {
    val before = entriesOf(entries)
    val keysOfChanges = changes.map(_.key).toSet
    val untouched = before.filterNot(entry => keysOfChanges.contains(pointedToKey(entry)))
    val written = changes.filter(_.row != null).map(change => entryOf(change.key, change.row))
    val after = (untouched ++ written).sortWith((a, b) => compareKeys(a, b) < 0)
    keys += after.size - before.size
    if (after.nonEmpty) segments.writeVersions(hash, ByteArray.concat(after: _*))
    else if (before.nonEmpty) segments.removeVersions(hash)
  }

  private def entriesOf(content: Array[Byte]): Seq[Array[Byte]] =
    Iterator
      .unfold(0)(at =>
        Option.when(at < content.length)((content.slice(at, end(content, at)), end(content, at)))
      )
      .toSeq

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

  private def pointToKey(row: UnsafeRow, content: Array[Byte], at: Int): Unit =
    row.pointTo(content, Base + at + HeadBytes, keyBytes(content, at))

  private def pointToRow(row: UnsafeRow, content: Array[Byte], at: Int): Unit =
    row.pointTo(content, Base + at + HeadBytes + keyBytes(content, at), rowBytes(content, at))
}

/** An entry is the length of its key, the length of its row, the key and the row. */
private[state] object VersionTable {
  private val Base = Platform.BYTE_ARRAY_OFFSET.toLong
  private val HeadBytes = 8

  /** What a changed key takes in memory, beside its bytes and those of its row. */
  private val EntryBytes = 150

  def hash(key: UnsafeRow): Long =
    XXH64.hashUnsafeBytes(key.getBaseObject, key.getBaseOffset, key.getSizeInBytes, 42L)

  private def keyBytes(content: Array[Byte], at: Int): Int = Platform.getInt(content, Base + at)
  private def rowBytes(content: Array[Byte], at: Int): Int = Platform.getInt(content, Base + at + 4)

  private def end(content: Array[Byte], at: Int): Int =
    at + HeadBytes + keyBytes(content, at) + rowBytes(content, at)

  private def compareKeys(one: Array[Byte], other: Array[Byte]): Int = {
    def key(entry: Array[Byte]) = entry.slice(HeadBytes, HeadBytes + keyBytes(entry, 0))
    ByteArray.compareBinary(key(one), key(other))
  }

  private def entryOf(key: UnsafeRow, row: UnsafeRow): Array[Byte] = {
    val (keySize, rowSize) = (key.getSizeInBytes, row.getSizeInBytes)
    val entry = new Array[Byte](HeadBytes + keySize + rowSize)
    Platform.putInt(entry, Base, keySize)
    Platform.putInt(entry, Base + 4, rowSize)
    key.writeToMemory(entry, Base + HeadBytes)
    row.writeToMemory(entry, Base + HeadBytes + keySize)
    entry
  }

  /** All entries whose keys have a hash. */
  final private case class Value(hash: Long, entries: Array[Byte])

  /**
   * @param row
   *   null where the key has gone
   * @param before
   *   the entries of its hash in the store, where they have been read
   */
  final private class Change(
      val hash: Long,
      val key: UnsafeRow,
      var row: UnsafeRow,
      val before: Array[Byte]
  )

  private object Change {
    val byHash: Comparator[Change] = (one, other) => java.lang.Long.compare(one.hash, other.hash)
  }
}
