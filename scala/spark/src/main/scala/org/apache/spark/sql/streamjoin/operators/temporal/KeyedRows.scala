package org.apache.spark.sql.streamjoin.operators.temporal

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.execution.UnsafeExternalRowSorter
import org.apache.spark.unsafe.types.ByteArray
import org.apache.spark.util.collection.unsafe.sort.PrefixComparators
import org.apache.spark.{SparkEnv, TaskContext}

/**
 * Rows of an input by key, those of a key in the order of their times; where they do not fit into
 * memory, in files. The bytes of the rows decide in the end: never the order in which they have
 * come.
 *
 * @param ties
 *   which of two rows with one key and one time comes first
 */
final private[temporal] class KeyedRows(input: InputSpec, ties: Ordering[InternalRow]) {
  private val layout = input.layout

  private val order: Ordering[InternalRow] = {
    def bytes(row: InternalRow) = row.asInstanceOf[UnsafeRow].getBytes
    KeyedRows
      .by(input, input.keys :+ input.time)
      .orElse(ties)
      .orElse((a, b) => ByteArray.compareBinary(bytes(a), bytes(b)))
  }

  private val prefix = new UnsafeExternalRowSorter.PrefixComputer {
    private val result = new UnsafeExternalRowSorter.PrefixComputer.Prefix
    override def computePrefix(row: InternalRow): UnsafeExternalRowSorter.PrefixComputer.Prefix = {
      val unsafe = row.asInstanceOf[UnsafeRow]
      result.isNull = false
      result.value = layout.hash(unsafe.getBaseObject, unsafe.getBaseOffset).toLong
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

private[temporal] object KeyedRows {

  /** One column after the other, nulls first. */
  def by(input: InputSpec, columns: Seq[Attribute]): Ordering[InternalRow] =
    if (columns.isEmpty) (_, _) => 0
    else RowOrdering.create(columns.map(SortOrder(_, Ascending)), input.output)
}

/** The order of rows of two inputs by their keys, as [[KeyedRows]] has it. */
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

  /** @param ofA the index of the input that `a` is of */
  def compare(a: UnsafeRow, ofA: Int, b: UnsafeRow, ofB: Int): Int = {
    val byHash = hash(a, ofA).compare(hash(b, ofB))
    if (byHash != 0) byHash
    else if (isSame(a, ofA, b, ofB)) 0
    else order.compare(keys(ofA)(a).copy(), keys(ofB)(b))
  }

  def hash(row: UnsafeRow, of: Int): Int = layouts(of).hash(row.getBaseObject, row.getBaseOffset)
}
