package org.apache.spark.sql.streamjoin.state

import java.util.UUID

import scala.collection.mutable

import org.apache.spark.sql.catalyst.expressions.{GenericInternalRow, UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.execution.streaming.state.StateStore
import org.apache.spark.sql.streamjoin.StreamJoinErrors
import org.apache.spark.sql.types._

import streamjoin.core.{Left, Right, Side}

/**
 * A state-store value for each row kept, and an index of them in memory.
 *
 * Keys are `(kind, id)`: one header, a row of either side by its number, and a mark beside each row that matched after it
 * was written. The header carries a token, new with every commit, and so does the index: the index is a cache, used
 * only where its token is that of the store that the task was given. Any retry, restart or move makes the two differ,
 * and the index is then read from the store.
 *
 * @param cached
 *   the index of an earlier commit, if one is at hand
 * @param read
 *   makes a row that was read from the store one that is kept: with its key and its times
 */
final private[streamjoin] class RowJoinState(
    store: StateStore,
    sides: Map[Side, Int],
    cached: Option[RowIndex],
    read: (Side, UnsafeRow) => KeptRow
) extends JoinState {
  import RowJoinState._

  private val codec = new Codec

  private val header: Option[Header] = Option(store.get(codec.key(HeaderKind, 0))).map { value =>
    Header.parse(value.getBinary(0)).fold(unreadable, identity)
  }

  private def unreadable(found: String): Nothing =
    throw StreamJoinErrors.runtime(
      "STREAMJOIN_STATE_FORMAT",
      "partition" -> store.id.partitionId.toString,
      "checkpoint" -> store.id.checkpointRootLocation,
      "version" -> store.version.toString,
      "found" -> found,
      "expected" -> Version.toString
    )

  /** The index was as the store, and did not have to be read. */
  val reused: Boolean = cached.exists(index => header.exists(_.token == index.token))

  private val index: RowIndex = if (reused) cached.get else load()
  // From here on it equals no commit until the next one, and would not be used again if this one came to nothing.
  index.token = null

  private val added = mutable.ArrayBuffer.empty[KeptRow]
  private val marked = mutable.ArrayBuffer.empty[KeptRow]
  private val removed = mutable.ArrayBuffer.empty[KeptRow]

  private def load(): RowIndex = {
    val index = new RowIndex(sides)
    val rows = mutable.HashMap.empty[(Side, Long), KeptRow]
    val matched = mutable.ArrayBuffer.empty[(Side, Long)]
    val all = store.iterator()
    try
      all.foreach { pair =>
        val (kind, id) = (pair.key.getInt(0), pair.key.getLong(1))
        kind match {
          case HeaderKind =>
          case LeftMatched => matched += (Left -> id)
          case RightMatched => matched += (Right -> id)
          case _ =>
            val side = if (kind == LeftRow) Left else Right
            val bytes = pair.value.getBinary(0)
            val row = new UnsafeRow(codec.fields(bytes))
            row.pointTo(bytes, RowOffset, bytes.length - RowHeader)
            val kept = read(side, row)
            kept.id = id
            rows((side, id)) = kept
        }
      }
    finally all.close()
    matched.foreach { id =>
      rows.get(id).foreach { kept =>
        kept.matched = true
        kept.matchedInStore = true
      }
    }
    // By number, so that the index does not depend on the order in which a store returns its values.
    rows.valuesIterator.toArray.sortBy(kept => (kept.side.index, kept.id)).foreach(index.add)
    index.nextId = header.fold(0L)(_.nextId)
    index
  }

  override def append(kept: KeptRow): Unit = {
    index.add(kept)
    added += kept
  }

  override def probe(side: Side, key: UnsafeRow, time: Int, from: Long, to: Long): Iterator[KeptRow] =
    index.probe(side, key).filter(kept => kept.times(time) >= from && kept.times(time) <= to)

  override def markMatched(kept: KeptRow): Unit =
    if (!kept.matched) {
      kept.matched = true
      if (kept.id >= 0) marked += kept
    }

  override def remove(kept: KeptRow): Unit =
    if (!kept.gone) {
      index.remove(kept)
      if (kept.id >= 0) removed += kept
    }

  override def evict(side: Side, time: Int, below: Long): Iterator[KeptRow] =
    index.below(side, time, below).map { kept =>
      remove(kept)
      kept
    }

  override def rows(side: Side): Long = index.rows(side)

  override def lowest(side: Side, time: Int): Option[Long] = index.lowest(side, time)

  override def commit(): Unit = {
    removed.foreach { kept =>
      store.remove(codec.key(rowKind(kept.side), kept.id))
      if (kept.matchedInStore) store.remove(codec.key(matchedKind(kept.side), kept.id))
    }
    marked.iterator.filterNot(_.gone).foreach(mark)
    added.iterator.filterNot(_.gone).foreach { kept =>
      kept.id = index.nextId
      index.nextId += 1
      store.put(codec.key(rowKind(kept.side), kept.id), codec.row(kept.row))
      if (kept.matched) mark(kept)
    }
    index.token = UUID.randomUUID()
    store.put(codec.key(HeaderKind, 0), codec.value(Header(index.token, index.nextId).bytes))
    store.commit()
  }

  private def mark(kept: KeptRow): Unit = {
    kept.matchedInStore = true
    store.put(codec.key(matchedKind(kept.side), kept.id), codec.value(Array.emptyByteArray))
  }

  override def abort(): Unit = store.abort()

  /** The index, to be kept for the next batch once this one is committed. */
  def committedIndex: RowIndex = index
}

private[streamjoin] object RowJoinState {
  val KeySchema: StructType =
    new StructType().add("kind", IntegerType, nullable = false).add("id", LongType, nullable = false)
  val ValueSchema: StructType = new StructType().add("value", BinaryType, nullable = false)

  /** Format of keys and values. */
  val Version = 1

  private val HeaderKind = 0
  private val LeftRow = 1
  private val RightRow = 2
  private val LeftMatched = 3
  private val RightMatched = 4

  private def rowKind(side: Side): Int = if (side == Left) LeftRow else RightRow
  private def matchedKind(side: Side): Int = if (side == Left) LeftMatched else RightMatched

  /** A row's value starts with its number of fields; eight bytes, so that the row itself stays aligned. */
  private val RowHeader = 8
  private val RowOffset = org.apache.spark.unsafe.Platform.BYTE_ARRAY_OFFSET + RowHeader

  /** Keys and values as Spark's rows. What it returns is overwritten by its next call; stores copy what they keep. */
  final private class Codec {
    private val keyOf = UnsafeProjection.create(KeySchema)
    private val valueOf = UnsafeProjection.create(ValueSchema)
    private val keyFields = new GenericInternalRow(2)
    private val valueFields = new GenericInternalRow(1)

    def key(kind: Int, id: Long): UnsafeRow = {
      keyFields.update(0, kind)
      keyFields.update(1, id)
      keyOf(keyFields)
    }

    def value(bytes: Array[Byte]): UnsafeRow = {
      valueFields.update(0, bytes)
      valueOf(valueFields)
    }

    def row(row: UnsafeRow): UnsafeRow = {
      val bytes = new Array[Byte](RowHeader + row.getSizeInBytes)
      org.apache.spark.unsafe.Platform
        .putInt(bytes, org.apache.spark.unsafe.Platform.BYTE_ARRAY_OFFSET.toLong, row.numFields)
      row.writeToMemory(bytes, RowOffset.toLong)
      value(bytes)
    }

    def fields(bytes: Array[Byte]): Int =
      org.apache.spark.unsafe.Platform
        .getInt(bytes, org.apache.spark.unsafe.Platform.BYTE_ARRAY_OFFSET.toLong)
  }

  final private case class Header(token: UUID, nextId: Long) {
    def bytes: Array[Byte] = {
      val buffer = java.nio.ByteBuffer.allocate(Header.Size)
      buffer.putInt(Header.Magic).putInt(Version).putLong(token.getMostSignificantBits)
      buffer.putLong(token.getLeastSignificantBits).putLong(nextId)
      buffer.array()
    }
  }

  private object Header {
    private val Magic = 0x534a4f49
    private val Size = 32

    /** The header, or what was found in its place. */
    def parse(bytes: Array[Byte]): Either[String, Header] = {
      val buffer = java.nio.ByteBuffer.wrap(bytes)
      if (bytes.length < 8 || buffer.getInt() != Magic) scala.Left("of something else")
      else {
        val version = buffer.getInt()
        if (version != Version || bytes.length != Size) scala.Left(version.toString)
        else scala.Right(Header(new UUID(buffer.getLong(), buffer.getLong()), buffer.getLong()))
      }
    }
  }
}
