package org.apache.spark.sql.streamjoin.joins.temporal

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.streamjoin.laterows.LateRows
import org.apache.spark.sql.streamjoin.observe.collect.TaskReport
import org.apache.spark.sql.streamjoin.operator.{
  BufferLimits,
  BufferingTask,
  MovedRow,
  Placement,
  StateSpec,
  StoredColumns,
  TaskInputs,
  TaskMetrics
}
import org.apache.spark.sql.streamjoin.state.{JoinState, RowLayout}
import org.apache.spark.sql.types.DataType

import streamjoin.core.{AsOf, Side}

/**
 * The data about an input that tasks need.
 *
 * @param keys
 *   key columns of the input
 * @param late
 *   rows with a lower time are late, in microseconds; if a version is valid until the next one, the
 *   newest version of a key is never late
 * @param bucketWidth
 *   bucket width of buffered rows, in microseconds
 * @param nullSafe
 *   for each equality, whether null equals null: it then has two keys, of which the second says
 *   whether the value is null; empty if there is no such equality
 */
final private[temporal] case class InputSpec(
    output: Seq[Attribute],
    keys: Seq[Attribute],
    time: Attribute,
    late: Long,
    bucketWidth: Long,
    nullSafe: Seq[Boolean] = Nil
) {

  /** Ordinal of the event time. */
  val field: Int = fieldOf(time)

  private def fieldOf(column: Attribute): Int = output.indexWhere(_.exprId == column.exprId)

  val keyFields: Array[Int] = keys.map(fieldOf).toArray

  /** Ordinals of keys that are null or, under an equality by which null equals null, say so. */
  private val (nullFields, flagFields) = {
    val fields = keyFields.iterator
    val found = (if (nullSafe.isEmpty) keys.map(_ => false) else nullSafe).map { isSafe =>
      if (isSafe) fields.next(): Unit
      fields.next() -> isSafe
    }
    val (flags, values) = found.partition(_._2)
    (values.map(_._1).toArray, flags.map(_._1).toArray)
  }

  /** Whether all values of the key are null. */
  def isWithoutKey(row: UnsafeRow): Boolean =
    nullFields.forall(row.isNullAt) && flagFields.forall(row.getBoolean)

  /** Rows are buffered by time; the hash of their keys selects the relevant ones. */
  def layout: RowLayout = layout(keyFields)

  /** Layout of rows whose key may be null. */
  def layoutWithoutKeys: RowLayout = layout(Array.empty[Int])

  private def layout(keys: Array[Int]): RowLayout =
    new RowLayout(output.map(_.dataType), keys, times = Array(field), expiring = Array(0))
}

/**
 * The data that the tasks of a batch need.
 *
 * @param inputs
 *   the left and the right input
 * @param operation
 *   column with the operation of a right row; none if all rows are versions
 * @param ties
 *   columns that order versions of one key and time, see [[StreamAsOfJoin]]
 * @param output
 *   columns of both inputs; those of the right one are null in a padded row
 * @param due
 *   this batch emits left rows with a lower time, in microseconds
 * @param needed
 *   later batches do not join right rows with a lower time, except for the newest of each key, in
 *   microseconds
 * @param looked
 *   every fact that could join a version with a lower time has been emitted, in microseconds
 * @param remembers
 *   how long deletions are remembered, in microseconds
 * @param unavailable
 *   stands for a value of a version that was not sent, if there is one
 * @param primaryKey
 *   ordinals of right columns that are never null in a row of the table
 */
final private[temporal] case class TemporalTaskSpec(
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
    limits: BufferLimits,
    lateRows: Option[LateRows.Spec],
    override val observed: Option[Seq[Option[Long]]],
    unavailable: Option[String] = None,
    primaryKey: Seq[Int] = Nil
) extends StateSpec {
  override def layouts: Seq[RowLayout] = Seq(inputs.head.layoutWithoutKeys, inputs(1).layout)
  override def bucketWidths: Seq[Long] = inputs.map(_.bucketWidth)

  override def placed: Seq[Placement] = inputs.map(input => Placement.ByFields(input.keyFields.toSeq))

  override def columns: Seq[Seq[Attribute]] = Seq(StoredColumns.of(inputs.head.output), inputs(1).output)

  /** A version without a key, which may be another one than before, is not kept. */
  override def mover(side: Int, into: Int): (UnsafeRow, Boolean) => Option[MovedRow] = {
    val moved = MovedRow.staying(this, side, into)
    val required = if (side == Side.Right.index) inputs(side).keyFields else Array.empty[Int]
    (row, isMatched) => if (required.exists(row.isNullAt)) None else moved(row, isMatched)
  }

  override def tableKeys: Seq[Int] = inputs(1).keyFields.toSeq

  override def forgetWithin: Long = remembers / KeyedVersions.Parts

  override def table: Option[(Seq[DataType], Int)] =
    Some((inputs(1).keys.map(_.dataType), inputs(1).output.size))

  override def task(of: TaskInputs): BufferingTask = new TemporalTask(this, of)

  /** The version of a key in the table counts as a row of the right input. */
  override def count(state: JoinState, report: TaskReport, metrics: TaskMetrics): Unit = {
    val rowsInState = metrics.bySide("rowsInState")
    metrics("keysWithVersion") += state.keys
    metrics("deletedKeys") += state.deletedKeys
    metrics("payloadBytes") += state.size.payload
    Side.both.foreach { side =>
      val rows = state.rows(side) + (if (side == Side.Right) state.keys else 0L)
      metrics("numTotalStateRows") += rows
      rowsInState(side) += rows
      report.add(side, rows, state.payload(side))
      report.keeps(side.index, state.lowest(side, 0))
    }
  }

  /** Orders versions of the same key and time; the last one wins. */
  def laterOfOneTime: Ordering[InternalRow] = {
    val right = inputs(1)
    val (before, after) = ties.span(column => !operation.exists(_.exprId == column.exprId))
    val deletesFirst: Ordering[InternalRow] = operation.map(new OperationColumn(_, right)) match {
      case Some(operations) =>
        Ordering.by(row => !operations.of(row.asInstanceOf[UnsafeRow]).ends)
      case None => (_, _) => 0
    }
    SortedRows.by(right, before).orElse(deletesFirst).orElse(SortedRows.by(right, after.drop(1)))
  }
}
