package org.apache.spark.sql.streamjoin.joins.order

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, UnsafeRow}
import org.apache.spark.sql.streamjoin.laterows.LateRows
import org.apache.spark.sql.streamjoin.observe.collect.TaskReport
import org.apache.spark.sql.streamjoin.operator.{
  BufferLimits,
  BufferingTask,
  MovedRow,
  Placement,
  StateSpec,
  TaskInputs,
  TaskMetrics
}
import org.apache.spark.sql.streamjoin.state.{JoinState, RowLayout}

import streamjoin.core.Side

/**
 * The position of the time in a row.
 *
 * @param bucketWidth
 *   time span of a state bucket, in microseconds
 */
final private[order] class OrderLayout(val output: Seq[Attribute], time: Attribute, val bucketWidth: Long)
    extends Serializable {

  /** The field that has the time. */
  val field: Int = output.indexWhere(_.exprId == time.exprId)

  private val types = output.map(_.dataType)

  def rows: RowLayout = new RowLayout(types, keys = Array.empty, times = Array(field), expiring = Array(0))
}

/**
 * The data that each task of a batch needs.
 *
 * @param late
 *   time below which a row is late, in microseconds
 * @param due
 *   time below which a row is emitted in this batch, in microseconds
 */
final private[order] case class OrderTaskSpec(
    layout: OrderLayout,
    late: Long,
    due: Long,
    limits: BufferLimits,
    lateRows: Option[LateRows.Spec],
    override val observed: Option[Seq[Option[Long]]]
) extends StateSpec {
  override def layouts: Seq[RowLayout] = Seq(layout.rows)

  override def bucketWidths: Seq[Long] = Seq(layout.bucketWidth)

  override def placed: Seq[Placement] = Seq(Placement.Anywhere)

  override def columns: Seq[Seq[Attribute]] = Seq(layout.output)

  override def mover(side: Int, into: Int): (UnsafeRow, Boolean) => Option[MovedRow] =
    MovedRow.staying(this, side, into)

  override def task(of: TaskInputs): BufferingTask = new OrderTask(this, of)

  override def count(state: JoinState, report: TaskReport, metrics: TaskMetrics): Unit = {
    metrics("numTotalStateRows") += state.rows(Side.Left)
    report.add(Side.Left, state.rows(Side.Left), state.payload(Side.Left))
    report.keeps(0, state.lowest(Side.Left, 0))
  }
}

/** The work of one task in one batch: due rows pass through, and the other rows wait in state. */
final private[order] class OrderTask(
    spec: OrderTaskSpec,
    inputs: TaskInputs
) extends BufferingTask(spec, inputs) {
  private val field = spec.layout.field

  override def output: Iterator[InternalRow] = counted(Side.Left, inputs.rows.head).filter(passes) ++ leaving

  override def finish(): Unit = metrics("numRemovedStateRows") += expired.evicted

  /** A row without a time has no place in the order and is emitted immediately. */
  private def passes(row: InternalRow): Boolean =
    row.isNullAt(field) || {
      val time = row.getLong(field)
      if (observer != null) observer.came(Side.Left, time)
      if (time < spec.late) dropLate(Side.Left, row, 0, spec.late)
      else if (time >= spec.due) keep(row)
      time >= spec.late && time < spec.due
    }

  private def keep(row: InternalRow): Unit = {
    kept += 1
    buffer(Side.Left, row.asInstanceOf[UnsafeRow])
  }

  private lazy val expired = state.expired(Side.Left, Array(spec.due), unmatched = true)

  private def leaving: Iterator[InternalRow] =
    Iterator.continually(expired).takeWhile(_.next()).map(_.row)
}
