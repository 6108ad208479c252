package org.apache.spark.sql.streamjoin.state

import org.apache.spark.sql.catalyst.expressions.{UnsafeRow, XXH64}
import org.apache.spark.unsafe.Platform
import org.apache.spark.unsafe.types.ByteArray

/**
 * One row for each key, in the state store of a [[JoinState]]: the rows of the keys with one hash
 * are one value. A change goes to the store at once, and is committed with it.
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
    keyFields: Int,
    fields: Int,
    hash: UnsafeRow => Long
) {
  import VersionTable._

  private val keysBefore = segments.readVersionCount()
  private var keys = keysBefore
  private val found = new UnsafeRow(fields)
  private val otherKey = new UnsafeRow(keyFields)

  /** What was read last: mostly it is changed next. */
  private var last: Value = _

  /** How many keys have a row. */
  def size: Long = keys

  /** The row of a key, or null; it is valid until the next call. */
  def get(key: UnsafeRow): UnsafeRow = {
    val entries = read(hash(key))
    val at = find(entries, key)
    if (at < 0) null
    else {
      pointToRow(found, entries, at)
      found
    }
  }

  def put(key: UnsafeRow, row: UnsafeRow): Unit = {
    val keyHash = hash(key)
    val before = read(keyHash)
    val at = find(before, key)
    if (at < 0) keys += 1
    if (isAlone(before, at)) write(keyHash, entryOf(key, row))
    else {
      val after = others(before, key) :+ entryOf(key, row)
      write(keyHash, ByteArray.concat(after.sortWith((a, b) => compareKeys(a, b) < 0): _*))
    }
  }

  def remove(key: UnsafeRow): Unit = {
    val keyHash = hash(key)
    val before = read(keyHash)
    if (find(before, key) >= 0) {
      keys -= 1
      write(keyHash, ByteArray.concat(others(before, key): _*))
    }
  }

  /** Before the store is committed. */
  private[state] def writeSize(): Unit = if (keys != keysBefore) segments.writeVersionCount(keys)

  private def read(hash: Long): Array[Byte] = {
    if (last == null || last.hash != hash)
      last = Value(hash, segments.readVersions(hash).getOrElse(Array.emptyByteArray))
    last.entries
  }

  private def write(hash: Long, entries: Array[Byte]): Unit = {
    if (entries.nonEmpty) segments.writeVersions(hash, entries) else segments.removeVersions(hash)
    last = null
  }

  /** No key but that of the entry at a place has the hash. */
  private def isAlone(entries: Array[Byte], at: Int): Boolean =
    entries.isEmpty || at == 0 && end(entries, 0) == entries.length

  private def others(entries: Array[Byte], key: UnsafeRow): Seq[Array[Byte]] =
    entriesOf(entries).filterNot(pointedToKey(_) == key)

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
}
