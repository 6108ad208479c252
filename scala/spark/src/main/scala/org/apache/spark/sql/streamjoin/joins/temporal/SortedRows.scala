package org.apache.spark.sql.streamjoin.joins.temporal

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.execution.UnsafeExternalRowSorter
import org.apache.spark.sql.streamjoin.state.VersionTable
import org.apache.spark.unsafe.types.ByteArray
import org.apache.spark.util.collection.unsafe.sort.PrefixComparators
import org.apache.spark.{SparkEnv, TaskContext}

/**
 * Sorts rows of an input, and spills to disk if they do not fit into memory.
 *
 * @param first
 *   leading sort value; `order` breaks its ties
 */
final private[temporal] class SortedRows(
    input: InputSpec,
    first: UnsafeRow => Long,
    order: Ordering[InternalRow]
) {
  private val prefix = new UnsafeExternalRowSorter.PrefixComputer {
    private val result = new UnsafeExternalRowSorter.PrefixComputer.Prefix
    override def computePrefix(row: InternalRow): UnsafeExternalRowSorter.PrefixComputer.Prefix = {
      result.isNull = false
      result.value = first(row.asInstanceOf[UnsafeRow])
      result
    }
  }

  private val sorter = UnsafeExternalRowSorter.create(
    DataTypeUtils.fromAttributes(input.output),
    order,
    PrefixComparators.LONG,
    prefix,
    SparkEnv.get.memoryManager.pageSizeBytes,
    false
  )
  TaskContext.get().addTaskCompletionListener[Unit](_ => sorter.cleanupResources())

  private var rows, rowBytes = 0L

  /** Number of rows. */
  def size: Long = rows

  /** Bytes of all rows. */
  def bytes: Long = rowBytes

  def add(row: UnsafeRow): Unit = {
    rows += 1
    rowBytes += row.getSizeInBytes
    sorter.insertRow(row)
  }

  /** A row is valid until the next one is read. */
  def sorted: Iterator[UnsafeRow] = sorter.sort().asInstanceOf[Iterator[UnsafeRow]]
}

private[temporal] object SortedRows {

  /** By key, in the order of a [[VersionTable]]; within a key by time, then by `ties`. */
  def byKey(input: InputSpec, ties: Ordering[InternalRow]): SortedRows = {
    val keyOf = UnsafeProjection.create(input.keys, input.output)
    def order(row: UnsafeRow) = VersionTable.order(keyOf(row)).toLong
    new SortedRows(input, order, by(input, input.keys).orElse(byTime(input, ties)))
  }

  def byTime(input: InputSpec): SortedRows =
    new SortedRows(input, _.getLong(input.field), byTime(input, by(input, Nil)))

  /** By time, then `ties`, then the bytes of the rows: the order of arrival never decides. */
  def byTime(input: InputSpec, ties: Ordering[InternalRow]): Ordering[InternalRow] = {
    def bytes(row: InternalRow) = row.asInstanceOf[UnsafeRow].getBytes
    by(input, Seq(input.time)).orElse(ties).orElse((a, b) => ByteArray.compareBinary(bytes(a), bytes(b)))
  }

  /** By one column after the other, nulls first. */
  def by(input: InputSpec, columns: Seq[Attribute]): Ordering[InternalRow] =
    if (columns.isEmpty) (_, _) => 0
    else RowOrdering.create(columns.map(SortOrder(_, Ascending)), input.output)
}

/** Orders rows of both inputs by key, consistently with [[SortedRows.byKey]]. */
final private[temporal] class KeyOrder(left: InputSpec, right: InputSpec) {
  private val layouts = Seq(left, right).map(_.layout)
  private val keys = Seq(left, right).map(input => UnsafeProjection.create(input.keys, input.output))
  private val order = RowOrdering.create(
    right.keys.zipWithIndex.map { case (key, at) =>
      SortOrder(BoundReference(at, key.dataType, nullable = false), Ascending)
    },
    Nil
  )

  def isSame(a: UnsafeRow, ofA: Int, b: UnsafeRow, ofB: Int): Boolean =
    layouts(ofA).sameKey(a.getBaseObject, a.getBaseOffset, layouts(ofB), b.getBaseObject, b.getBaseOffset)

  /** @param ofA index of the input that `a` belongs to */
  def compare(a: UnsafeRow, ofA: Int, b: UnsafeRow, ofB: Int): Int = {
    val byHash = hash(a, ofA).compare(hash(b, ofB))
    if (byHash != 0) byHash
    else if (isSame(a, ofA, b, ofB)) 0
    else order.compare(keys(ofA)(a).copy(), keys(ofB)(b))
  }

  def hash(row: UnsafeRow, of: Int): Int = VersionTable.order(keys(of)(row))
}
