package org.apache.spark.sql.streamjoin.operators.temporal

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.streamjoin.operators.{LateRows, LateRowsWriter, StateSpec, StateTask}
import org.apache.spark.sql.streamjoin.state.{JoinState, RowLayout, VersionTable}

import streamjoin.core.{AsOf, Side}

/**
 * An input, for the tasks.
 *
 * @param late
 *   a row with a lower time is late, in microseconds
 * @param bucketWidth
 *   of the rows that wait, in microseconds
 */
final private[temporal] case class InputSpec(
    output: Seq[Attribute],
    keys: Seq[Expression],
    time: Attribute,
    late: Long,
    bucketWidth: Long
) {

  /** The field of the time. */
  val field: Int = output.indexWhere(_.exprId == time.exprId)

  /** Rows wait for their time, and are not looked up by their keys. */
  def layout: RowLayout =
    new RowLayout(output.map(_.dataType), keys = Array.empty, times = Array(field), expiring = Array(0))
}

/**
 * What each task of a batch does.
 *
 * @param inputs
 *   the left and the right one
 * @param due
 *   rows with a lower time are played in this batch, in microseconds
 */
final private[temporal] case class TemporalSpec(
    inputs: Seq[InputSpec],
    isDelete: Option[Expression],
    condition: Option[Expression],
    isLeftOuter: Boolean,
    rule: AsOf,
    due: Long,
    indexMemory: Long,
    executorIndexMemory: Option[Long],
    lateRows: Option[LateRows.Spec]
) extends StateSpec {
  override def layouts: Seq[RowLayout] = inputs.map(_.layout)
  override def bucketWidths: Seq[Long] = inputs.map(_.bucketWidth)
}

/** What a task counts. */
final private[temporal] case class TaskMetrics(
    joined: SQLMetric,
    padded: SQLMetric,
    late: SQLMetric,
    lateBySide: Map[Side, SQLMetric],
    ignored: SQLMetric,
    kept: SQLMetric,
    evicted: SQLMetric,
    keys: SQLMetric
)

/** The work of one task in one batch: what is due is played in the order of time, the rest waits. */
final private[temporal] class TemporalTask(
    spec: TemporalSpec,
    leftRows: Iterator[InternalRow],
    rightRows: Iterator[InternalRow],
    state: JoinState,
    metrics: TaskMetrics,
    lateRows: Option[LateRowsWriter]
) extends StateTask {
  private val (left, right) = (spec.inputs.head, spec.inputs(1))
  private val leftKey = UnsafeProjection.create(left.keys, left.output)
  private val rightKey = UnsafeProjection.create(right.keys, right.output)
  private val isDelete = spec.isDelete.map(Predicate.create(_, right.output))
  private val condition = spec.condition.map(Predicate.create(_, left.output ++ right.output))
  private val versions = new VersionTable(state.store, right.keys.size, right.output.size)

  override def output: Iterator[InternalRow] = {
    val (untimed, timed) = leftRows.partition(_.isNullAt(left.field))
    val facts = due(Side.Left, timed)
    val changes = new Versions(due(Side.Right, rightRows.filter(isVersion)))
    (facts.flatMap { row =>
      changes.playUntil(row.getLong(left.field))
      resultOf(row)
    } ++ rest(changes)) ++ (if (spec.isLeftOuter) untimed.map(padded) else Iterator.empty)
  }

  override def finish(): Unit = {
    versions.write()
    metrics.keys += versions.size
  }

  /** The rows of an input that are due, in the order of time; the others wait. */
  private def due(side: Side, rows: Iterator[InternalRow]): Iterator[UnsafeRow] = {
    val input = spec.inputs(side.index)
    val sorter = new DueRows(input, if (side == Side.Right) isDelete else None)
    rows.foreach { row =>
      val time = row.getLong(input.field)
      if (time < input.late) drop(side, row)
      else if (time < spec.due) sorter.add(row.asInstanceOf[UnsafeRow])
      else {
        metrics.kept += 1
        state.append(side, row.asInstanceOf[UnsafeRow])
      }
    }
    val expired = state.expired(side, Array(spec.due), unmatched = true)
    while (expired.next()) sorter.add(expired.row)
    metrics.evicted += expired.evicted
    sorter.sorted
  }

  private def drop(side: Side, row: InternalRow): Unit = {
    metrics.late += 1
    metrics.lateBySide(side) += 1
    lateRows.foreach(_.add(side, row, 0, spec.inputs(side.index).late))
  }

  /** A row without a key or a time is valid for nobody. */
  private def isVersion(row: InternalRow): Boolean = {
    val isOne = !row.isNullAt(right.field) && !rightKey(row).anyNull
    if (!isOne) metrics.ignored += 1
    isOne
  }

  /** What is left once all facts are out. */
  private def rest(changes: Versions): Iterator[InternalRow] = {
    lazy val none = {
      changes.playUntil(Long.MaxValue)
      Iterator.empty[InternalRow]
    }
    new Iterator[InternalRow] {
      override def hasNext: Boolean = none.hasNext
      override def next(): InternalRow = none.next()
    }
  }

  /** The versions that are due, in the order of time. */
  private class Versions(rows: Iterator[UnsafeRow]) {
    private var ahead: UnsafeRow = if (rows.hasNext) rows.next() else null

    /** Those that a fact of a time can meet. */
    def playUntil(time: Long): Unit =
      while (
        ahead != null && (ahead.getLong(right.field) < time ||
          spec.rule.allowsExact && ahead.getLong(right.field) == time)
      ) {
        if (isDelete.exists(_.eval(ahead))) versions.remove(rightKey(ahead))
        else versions.put(rightKey(ahead), ahead)
        ahead = if (rows.hasNext) rows.next() else null
      }
  }

  private val joined = new JoinedRow
  private val toOutput = UnsafeProjection.create(
    (left.output ++ right.output.map(_.withNullability(true))).zipWithIndex.map { case (column, at) =>
      BoundReference(at, column.dataType, nullable = true)
    }
  )
  private val nothing = new GenericInternalRow(right.output.size)

  private def resultOf(row: UnsafeRow): Option[InternalRow] = {
    val key = leftKey(row)
    val version = if (key.anyNull) null else versions.get(key)
    val isMet = version != null && {
      joined(row, version)
      condition.forall(_.eval(joined))
    }
    if (isMet) {
      metrics.joined += 1
      Some(toOutput(joined))
    } else Option.when(spec.isLeftOuter)(padded(row))
  }

  private def padded(row: InternalRow): InternalRow = {
    metrics.padded += 1
    toOutput(joined(row, nothing))
  }
}
