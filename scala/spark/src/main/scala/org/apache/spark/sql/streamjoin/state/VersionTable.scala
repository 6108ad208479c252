package org.apache.spark.sql.streamjoin.state

import java.util.{HashMap => JHashMap}

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import org.apache.spark.sql.catalyst.expressions.{UnsafeRow, XXH64}
import org.apache.spark.sql.execution.streaming.state.StateStore
import org.apache.spark.unsafe.Platform

/**
 * One row for each key, in a state store: the rows of the keys with one hash are one value. What a
 * batch changes is in memory until [[write]].
 *
 * @param keyFields
 *   of a key
 * @param fields
 *   of a row
 */
final private[streamjoin] class VersionTable(store: StateStore, keyFields: Int, fields: Int) {
  import VersionTable._

  private val segments = new SegmentStore(store)

  /** With null where the key has gone. */
  private val changed = new JHashMap[UnsafeRow, UnsafeRow]

  private var keys = segments.readVersionCount()
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

  def put(key: UnsafeRow, row: UnsafeRow): Unit = changed.put(key.copy(), row.copy()): Unit

  def remove(key: UnsafeRow): Unit = changed.put(key.copy(), null): Unit

  /** Hands what has changed to the store, which is not committed by that. */
  def write(): Unit = {
    changed.asScala.groupBy { case (key, _) => hash(key) }.foreach { case (hash, entries) =>
      val content = segments.readVersions(hash).getOrElse(Array.emptyByteArray)
      val entriesAfter = mutable.ArrayBuilder.make[Byte]
      var at = 0
      while (at < content.length) {
        pointToKey(otherKey, content, at)
        val next = end(content, at)
        if (entries.contains(otherKey)) keys -= 1 else entriesAfter ++= content.slice(at, next)
        at = next
      }
      entries.foreach { case (key, row) =>
        if (row != null) {
          append(entriesAfter, key, row)
          keys += 1
        }
      }
      val result = entriesAfter.result()
      if (result.nonEmpty) segments.writeVersions(hash, result)
      else if (content.nonEmpty) segments.removeVersions(hash)
    }
    if (!changed.isEmpty) segments.writeVersionCount(keys)
    changed.clear()
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

  private def hash(key: UnsafeRow): Long =
    XXH64.hashUnsafeBytes(key.getBaseObject, key.getBaseOffset, key.getSizeInBytes, 42L)

  private def keyBytes(content: Array[Byte], at: Int): Int = Platform.getInt(content, Base + at)
  private def rowBytes(content: Array[Byte], at: Int): Int = Platform.getInt(content, Base + at + 4)

  private def end(content: Array[Byte], at: Int): Int =
    at + HeadBytes + keyBytes(content, at) + rowBytes(content, at)

  private def append(to: mutable.ArrayBuilder[Byte], key: UnsafeRow, row: UnsafeRow): Unit = {
    val head = new Array[Byte](HeadBytes)
    Platform.putInt(head, Base, key.getSizeInBytes)
    Platform.putInt(head, Base + 4, row.getSizeInBytes)
    to ++= head
    to ++= key.getBytes
    to ++= row.getBytes
  }
}
