package org.apache.spark.sql.streamjoin.arrangement.storage

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.Murmur3HashFunction
import org.apache.spark.sql.catalyst.util.TypeUtils
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.hash.Murmur3_x86_32

/**
 * The key of rows: some of their columns. It is interpreted, not compiled, because a task reads few
 * rows of each of many arrangements.
 *
 * @param types
 *   types of the key columns
 * @param ordinals
 *   ordinals of the key columns in the rows
 */
final private[streamjoin] class RowKey(types: Array[DataType], ordinals: Array[Int]) extends Serializable {
  private val columns = types.zip(ordinals).map { case (dataType, at) => KeyColumn(dataType, at) }

  /** The hash that Spark's shuffle uses (`HashPartitioning`). */
  def hash(row: InternalRow): Int = {
    var hash = RowKey.Seed
    var i = 0
    while (i < columns.length) {
      hash = columns(i).hash(row, hash)
      i += 1
    }
    hash
  }

  def partition(row: InternalRow, partitions: Int): Int = Math.floorMod(hash(row), partitions)

  /** Whether two rows have the same key; null equals null. */
  def isSame(row: InternalRow, other: RowKey, otherRow: InternalRow): Boolean = {
    var i = 0
    while (i < columns.length && columns(i).isSame(row, other.columns(i), otherRow)) i += 1
    i == columns.length
  }

  def isNull(row: InternalRow, column: Int): Boolean = row.isNullAt(ordinals(column))
}

private[streamjoin] object RowKey {

  /** The seed of Spark's shuffle. */
  private val Seed = 42

  /** Whether a column of this type can be in a key: equal values must have equal hashes. */
  def canHave(dataType: DataType): Boolean = !dataType.existsRecursively {
    case _: MapType | _: VariantType | _: CalendarIntervalType => true
    case text: StringType => text != StringType
    case _ => false
  }

  def of(meta: ArrangementMeta, index: Int): RowKey = {
    val ordinals = meta.keyOrdinals(index).toArray
    new RowKey(ordinals.map(meta.schema(_).dataType), ordinals)
  }
}

/** A key column. 0.0 equals -0.0, and NaN equals NaN, as in SQL equalities. */
sealed abstract private class KeyColumn extends Serializable {
  def at: Int
  protected def hashOf(row: InternalRow, seed: Int): Int
  protected def isSameValue(row: InternalRow, other: KeyColumn, otherRow: InternalRow): Boolean

  final def hash(row: InternalRow, seed: Int): Int = if (row.isNullAt(at)) seed else hashOf(row, seed)

  final def isSame(row: InternalRow, other: KeyColumn, otherRow: InternalRow): Boolean = {
    val isNull = row.isNullAt(at)
    isNull == otherRow.isNullAt(other.at) && (isNull || isSameValue(row, other, otherRow))
  }
}

private object KeyColumn {
  def apply(dataType: DataType, at: Int): KeyColumn = dataType match {
    case IntegerType | DateType | _: YearMonthIntervalType => new OfInt(at)
    case LongType | TimestampType | TimestampNTZType | _: DayTimeIntervalType => new OfLong(at)
    case _: StringType => new OfString(at)
    case other => new OfAny(other, at)
  }

  final private class OfInt(val at: Int) extends KeyColumn {
    override protected def hashOf(row: InternalRow, seed: Int): Int =
      Murmur3_x86_32.hashInt(row.getInt(at), seed)
    override protected def isSameValue(row: InternalRow, other: KeyColumn, otherRow: InternalRow): Boolean =
      row.getInt(at) == otherRow.getInt(other.at)
  }

  final private class OfLong(val at: Int) extends KeyColumn {
    override protected def hashOf(row: InternalRow, seed: Int): Int =
      Murmur3_x86_32.hashLong(row.getLong(at), seed)
    override protected def isSameValue(row: InternalRow, other: KeyColumn, otherRow: InternalRow): Boolean =
      row.getLong(at) == otherRow.getLong(other.at)
  }

  final private class OfString(val at: Int) extends KeyColumn {
    override protected def hashOf(row: InternalRow, seed: Int): Int = {
      val text = row.getUTF8String(at)
      Murmur3_x86_32.hashUnsafeBytes(text.getBaseObject, text.getBaseOffset, text.numBytes, seed)
    }
    override protected def isSameValue(row: InternalRow, other: KeyColumn, otherRow: InternalRow): Boolean =
      row.getUTF8String(at) == otherRow.getUTF8String(other.at)
  }

  final private class OfAny(dataType: DataType, val at: Int) extends KeyColumn {
    @transient private lazy val ordering = TypeUtils.getInterpretedOrdering(dataType)

    override protected def hashOf(row: InternalRow, seed: Int): Int =
      Murmur3HashFunction.hash(row.get(at, dataType), dataType, seed).toInt

    override protected def isSameValue(row: InternalRow, other: KeyColumn, otherRow: InternalRow): Boolean =
      ordering.equiv(row.get(at, dataType), otherRow.get(other.at, dataType))
  }
}
