package org.apache.spark.sql.streamjoin.operators.temporal

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{BasePredicate, UnsafeRow}
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.execution.UnsafeExternalRowSorter
import org.apache.spark.unsafe.types.ByteArray
import org.apache.spark.util.collection.unsafe.sort.PrefixComparators
import org.apache.spark.{SparkEnv, TaskContext}

/**
 * The rows of a task that are due, in the order of their times; where they do not fit into memory,
 * in files. Of rows with one time a delete comes first, and then the bytes of the rows decide: never
 * the order in which they have come.
 */
final private[temporal] class DueRows(input: InputSpec, isDelete: Option[BasePredicate]) {

  private val order: Ordering[InternalRow] = (a, b) => {
    val byTime = a.getLong(input.field).compare(b.getLong(input.field))
    if (byTime != 0) byTime
    else {
      val byKind = isDelete.fold(0)(delete => delete.eval(b).compare(delete.eval(a)))
      if (byKind != 0) byKind
      else ByteArray.compareBinary(a.asInstanceOf[UnsafeRow].getBytes, b.asInstanceOf[UnsafeRow].getBytes)
    }
  }

  private val prefix = new UnsafeExternalRowSorter.PrefixComputer {
    private val result = new UnsafeExternalRowSorter.PrefixComputer.Prefix
    override def computePrefix(row: InternalRow): UnsafeExternalRowSorter.PrefixComputer.Prefix = {
      result.isNull = false
      result.value = row.getLong(input.field)
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
