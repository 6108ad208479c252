package org.apache.spark.sql.streamjoin.operators.temporal

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.execution.UnsafeExternalRowSorter
import org.apache.spark.unsafe.types.ByteArray
import org.apache.spark.util.collection.unsafe.sort.PrefixComparators
import org.apache.spark.{SparkEnv, TaskContext}

/**
 * Rows of an input in an order; where they do not fit into memory, in files.
 *
 * @param first
 *   by which they are ordered before all else
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

  def add(row: UnsafeRow): Unit = sorter.insertRow(row)

  /** A row is valid until the next one is asked for. */
  def sorted: Iterator[UnsafeRow] = sorter.sort().asInstanceOf[Iterator[UnsafeRow]]
}

private[temporal] object SortedRows {

  /** Those of a key in the order of their times, then as `ties` has it. */
  def byKey(input: InputSpec, ties: Ordering[InternalRow]): SortedRows = {
    val layout = input.layout
    def hash(row: UnsafeRow) = layout.hash(row.getBaseObject, row.getBaseOffset).toLong
    new SortedRows(input, hash, by(input, input.keys).orElse(byTime(input, ties)))
  }

  def byTime(input: InputSpec): SortedRows =
    new SortedRows(input, _.getLong(input.field), byTime(input, by(input, Nil)))

  /**
   * By their times, then as `ties` has it. The bytes of the rows decide in the end: never the order
   * in which they have come.
   */
  def byTime(input: InputSpec, ties: Ordering[InternalRow]): Ordering[InternalRow] = {
    def bytes(row: InternalRow) = row.asInstanceOf[UnsafeRow].getBytes
    by(input, Seq(input.time)).orElse(ties).orElse((a, b) => ByteArray.compareBinary(bytes(a), bytes(b)))
  }

  /** One column after the other, nulls first. */
  def by(input: InputSpec, columns: Seq[Attribute]): Ordering[InternalRow] =
    if (columns.isEmpty) (_, _) => 0
    else RowOrdering.create(columns.map(SortOrder(_, Ascending)), input.output)
}
