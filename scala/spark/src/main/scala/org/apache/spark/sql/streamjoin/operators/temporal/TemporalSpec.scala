package org.apache.spark.sql.streamjoin.operators.temporal

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.streamjoin.operators.{LateRows, Operation, StateSpec}
import org.apache.spark.sql.streamjoin.state.RowLayout

import streamjoin.core.{AsOf, Side}

/**
 * An input, for the tasks.
 *
 * @param keys
 *   columns of it
 * @param late
 *   a row with a lower time is late, in microseconds, but for a version that is the newest of its
 *   key where such a one is met until the next
 * @param bucketWidth
 *   of the rows that are kept, in microseconds
 */
final private[temporal] case class InputSpec(
    output: Seq[Attribute],
    keys: Seq[Attribute],
    time: Attribute,
    late: Long,
    bucketWidth: Long
) {

  /** The field of the time. */
  val field: Int = fieldOf(time)

  private def fieldOf(column: Attribute): Int = output.indexWhere(_.exprId == column.exprId)

  val keyFields: Array[Int] = keys.map(fieldOf).toArray

  /** Rows are kept by their time; the hash of their keys tells which of them matter. */
  def layout: RowLayout = layout(keyFields)

  /** Of rows whose key may be null. */
  def layoutWithoutKeys: RowLayout = layout(Array.empty[Int])

  private def layout(keys: Array[Int]): RowLayout =
    new RowLayout(output.map(_.dataType), keys, times = Array(field), expiring = Array(0))
}

/**
 * What each task of a batch does.
 *
 * @param inputs
 *   the left and the right one
 * @param operation
 *   the column that says what a row of the right input is, where not all are versions
 * @param ties
 *   as [[org.apache.spark.sql.streamjoin.plans.AsOfMatch]] has them
 * @param output
 *   columns of both inputs; those of the right one are null where a row is padded
 * @param due
 *   rows of the left input with a lower time come out in this batch, in microseconds
 * @param needed
 *   rows of the right input with a lower time are not met in the batches after this one, but for
 *   the newest of each key, in microseconds
 * @param looked
 *   facts that may have met a version with a lower time have been emitted, in microseconds
 * @param remembers
 *   for how long deletions are remembered, in microseconds
 */
final private[temporal] case class TemporalSpec(
    inputs: Seq[InputSpec],
    operation: Option[Attribute],
    ties: Seq[Attribute],
    condition: Option[Expression],
    output: Seq[Attribute],
    isLeftOuter: Boolean,
    rule: AsOf,
    due: Long,
    needed: Long,
    looked: Long,
    remembers: Long,
    maxAccumulatedRecords: Long,
    indexMemory: Long,
    executorIndexMemory: Option[Long],
    lateRows: Option[LateRows.Spec]
) extends StateSpec {
  override def layouts: Seq[RowLayout] = Seq(inputs.head.layoutWithoutKeys, inputs(1).layout)
  override def bucketWidths: Seq[Long] = inputs.map(_.bucketWidth)

  /** Which of two versions of one key and one time comes later. */
  def laterOfOneTime: Ordering[InternalRow] = {
    val right = inputs(1)
    val (before, after) = ties.span(column => !operation.exists(_.exprId == column.exprId))
    val deletesFirst: Ordering[InternalRow] = operation.map(new Operations(_, right)) match {
      case Some(operations) =>
        Ordering.by(row => operations.of(row.asInstanceOf[UnsafeRow]) != Operation.Delete)
      case None => (_, _) => 0
    }
    SortedRows.by(right, before).orElse(deletesFirst).orElse(SortedRows.by(right, after.drop(1)))
  }
}

/** What a task counts. */
final private[temporal] case class TaskMetrics(
    joined: SQLMetric,
    padded: SQLMetric,
    late: SQLMetric,
    lateBySide: Map[Side, SQLMetric],
    ignored: SQLMetric,
    past: SQLMetric,
    kept: SQLMetric,
    evicted: SQLMetric
)
