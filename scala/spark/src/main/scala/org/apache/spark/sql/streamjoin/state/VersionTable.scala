package org.apache.spark.sql.streamjoin.state

import java.util.{HashMap => JHashMap}

import scala.jdk.CollectionConverters._

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
 */
final private[streamjoin] class VersionTable private[state] (
    segments: SegmentStore,
    memory: IndexMemory,
    keyFields: Int,
    fields: Int
) {
  import VersionTable._

  /** With null where the key has gone. */
  private val changed = new JHashMap[UnsafeRow, UnsafeRow]
  private var bytes = 0L

  private var keys = segments.readVersionCount()
  private var keysInStore = keys
  private val found = new UnsafeRow(fields)
  private val otherKey = new UnsafeRow(keyFields)

  /** How many keys have a row, once the batch is written. */
  def size: Long = keys

  /** The row of a key, or null; it is valid until the next call. */
  def get(key: UnsafeRow): UnsafeRow =
    if (changed.containsKey(key)) changed.get(key)
    else {
      val content = segments.readVersions(hash(key))
      val at = content.fold(-1)(find(_, key))
      if (at < 0) null
      else {
        pointToRow(found, content.get, at)
        found
      }
    }

  def put(key: UnsafeRow, row: UnsafeRow): Unit = change(key, row.copy())

  def remove(key: UnsafeRow): Unit = change(key, null)

  private def change(key: UnsafeRow, row: UnsafeRow): Unit = {
    val own = key.copy()
    count(EntryBytes + own.getSizeInBytes + sizeOf(row))
    val before = changed.put(own, row)
    if (before != null) count(-sizeOf(before))
    if (memory.exceeded) write()
  }

  private def sizeOf(row: UnsafeRow): Int = if (row == null) 0 else row.getSizeInBytes

  private def count(change: Int): Unit = {
    bytes += change
    memory.add(change.toLong)
  }

  /** Hands what has changed to the store, which is not committed by that. */
  private[state] def write(): Unit = {
    changed.asScala.groupBy { case (key, _) => hash(key) }.foreach { case (hash, entries) =>
      val content = segments.readVersions(hash).getOrElse(Array.emptyByteArray)
      val before = entriesOf(content)
      val untouched = before.filterNot(entry => entries.contains(pointedToKey(entry)))
      val written = entries.collect { case (key, row) if row != null => entryOf(key, row) }
      val after = (untouched ++ written).sortWith((a, b) => compareKeys(a, b) < 0)
      keys += after.size - before.size
      if (after.nonEmpty) segments.writeVersions(hash, ByteArray.concat(after: _*))
      else if (before.nonEmpty) segments.removeVersions(hash)
    }
    if (keys != keysInStore) segments.writeVersionCount(keys)
    keysInStore = keys
    changed.clear()
    memory.add(-bytes)
    bytes = 0
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
private object VersionTable {
  private val Base = Platform.BYTE_ARRAY_OFFSET.toLong
  private val HeadBytes = 8

  /** What a changed key takes in memory, beside its bytes and those of its row. */
  private val EntryBytes = 150

  private def hash(key: UnsafeRow): Long =
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
    val head = new Array[Byte](HeadBytes)
    Platform.putInt(head, Base, key.getSizeInBytes)
    Platform.putInt(head, Base + 4, row.getSizeInBytes)
    ByteArray.concat(head, key.getBytes, row.getBytes)
  }
}
