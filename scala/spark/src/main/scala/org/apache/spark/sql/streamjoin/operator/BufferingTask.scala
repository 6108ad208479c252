package org.apache.spark.sql.streamjoin.operator

import scala.annotation.unused

import org.apache.hadoop.conf.Configuration

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, UnsafeRow}
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streamjoin.base.{Figures, SharedServer, StreamJoinConf, StreamJoinErrors}
import org.apache.spark.sql.streamjoin.laterows.{LateRows, LateRowsWriter}
import org.apache.spark.sql.streamjoin.observe.collect.{RowObserver, TaskReport}
import org.apache.spark.sql.streamjoin.state.{JoinState, LifetimeWidth, RowLayout}
import org.apache.spark.sql.types.DataType

import streamjoin.core.Side

/**
 * Limits on what one task buffers.
 *
 * @param maxRecords
 *   number of rows at which a task fails
 * @param indexMemory
 *   limit for the index of a task, in bytes
 * @param executorIndexMemory
 *   limit for all indexes of an executor, in bytes, if set
 */
final private[streamjoin] case class BufferLimits(
    maxRecords: Long,
    indexMemory: Long,
    executorIndexMemory: Option[Long]
)

private[streamjoin] object BufferLimits {
  def of(conf: SQLConf): BufferLimits = BufferLimits(
    conf.getConf(StreamJoinConf.MaxAccumulatedRecords),
    conf.getConf(StreamJoinConf.IndexMemory),
    SharedServer.get(StreamJoinConf.ExecutorIndexMemory, conf)
  )
}

/** The metrics of an operator, by name. A task looks up each of them once, not for each row. */
final private[streamjoin] class TaskMetrics(all: Map[String, SQLMetric]) {
  def apply(name: String): SQLMetric = all(name)

  def bySide(name: String): Map[Side, SQLMetric] =
    Side.both.flatMap(side => all.get(Figures.ofSide(Some(side.name), name)).map(side -> _)).toMap
}

/**
 * The specification of the tasks of a batch, as data: how a task opens its [[JoinState]], and the
 * work that it does. It is sent to the tasks and does not reference plans.
 */
private[streamjoin] trait StateSpec extends Serializable {

  /** Row layout of each buffer: for the left and the right input, or for the only one. */
  def layouts: Seq[RowLayout]

  /** Bucket width of each buffer, in microseconds. */
  def bucketWidths: Seq[Long]

  /** By buffer: how its first rows decide the bucket width, if they do. */
  def byLifetimes: Seq[Option[LifetimeWidth]] = Nil

  /** By buffer: which partition its rows are in. */
  def placed: Seq[Placement]

  /** By buffer: the columns of its input, for rows that were stored by another query. */
  def columns: Seq[Seq[Attribute]] = Nil

  /**
   * By buffer: where a row of its input goes that another query has stored, given whether it has
   * matched; none if it leaves at once. The row must be a valid one of the input.
   *
   * @param into
   *   number of partitions
   */
  def mover(@unused side: Int, @unused into: Int): (UnsafeRow, Boolean) => Option[MovedRow] =
    throw new IllegalStateException(s"$getClass takes over no rows")

  /** Key types of the table by key, if the state has one, and the number of fields of its rows. */
  def table: Option[(Seq[DataType], Int)] = None

  /** Ordinals of the fields that make up the key of a row in the table, one of the last input. */
  def tableKeys: Seq[Int] = Nil

  /** How much longer than it is remembered a deletion may stay in the table, in microseconds. */
  def forgetWithin: Long = 0

  def limits: BufferLimits

  /** Where to write late rows, if they are kept. */
  def lateRows: Option[LateRows.Spec]

  /**
   * By input: the newest event time, in microseconds, from which its watermark is computed; none if
   * rows are not observed.
   */
  def observed: Option[Seq[Option[Long]]]

  /** By input: position of the observed time in a buffered row, among its times. */
  def observedTimes: Seq[Int] = layouts.map(_ => 0)

  /** Whether to also observe keys. */
  def samplesKeys: Boolean = false

  /** The side that a task reads while another task stores it. */
  def replicated(partition: Int): Option[StateSpec.Replicated] = None

  def task(of: TaskInputs): BufferingTask

  /** Counts the rows of a committed state. */
  def count(state: JoinState, report: TaskReport, metrics: TaskMetrics): Unit
}

private[streamjoin] object StateSpec {

  /**
   * @param cap
   *   memory limit, in bytes
   * @param keeper
   *   partition of the task that stores the side
   */
  final case class Replicated(side: Side, cap: Long, keeper: Int)
}

/**
 * The input of a task.
 *
 * @param rows
 *   the rows of each input
 */
final private[streamjoin] case class TaskInputs(
    partition: Int,
    rows: Seq[Iterator[InternalRow]],
    state: JoinState,
    metrics: TaskMetrics,
    lateRows: Option[LateRowsWriter],
    hadoopConf: Configuration
)

/**
 * The work of one task in one batch that buffers rows: counts rows, drops late ones, and fails if
 * there are too many.
 */
abstract private[streamjoin] class BufferingTask(
    spec: StateSpec,
    inputs: TaskInputs
) {
  protected val state: JoinState = inputs.state
  protected val metrics: TaskMetrics = inputs.metrics

  /**
   * Once it has been consumed and [[finish]] has been called, the state is ready to be committed.
   */
  def output: Iterator[InternalRow]

  def finish(): Unit

  /**
   * Rows that are in state now or were in state earlier in this batch. A row that leaves within the
   * batch still counts, so that the order of rows does not matter.
   */
  private var buffered = state.rows

  /** Null if rows are not observed. Not an Option, because it is accessed for each row. */
  final protected val observer: RowObserver =
    spec.observed.map(new RowObserver(_, spec.layouts, spec.observedTimes, spec.samplesKeys)).orNull

  /** The observations about the rows of the batch, if rows are observed. */
  final def observed: Option[RowObserver.Observed] = Option(observer).map(_.report)

  private val came = new Array[Long](2)

  /** Rows of the batch, by input. */
  final def cameIn: Array[Long] = came

  /** Counts the rows of an input as they arrive. */
  final protected def counted(side: Side, rows: Iterator[InternalRow]): Iterator[InternalRow] =
    new Iterator[InternalRow] {
      private val at = side.index
      override def hasNext: Boolean = rows.hasNext
      override def next(): InternalRow = {
        came(at) += 1
        rows.next()
      }
    }

  final protected val kept: SQLMetric = metrics("numUpdatedStateRows")
  private val late = metrics("numRowsDroppedByWatermark")
  private val lateBySide = metrics.bySide("lateRows")

  /** Fails if there are too many rows, before any part of the batch is committed. */
  final protected def buffer(side: Side, row: UnsafeRow): Unit = {
    buffered += 1
    if (buffered >= spec.limits.maxRecords)
      throw StreamJoinErrors.runtime(
        "STREAMJOIN_MAX_ACCUMULATED_RECORDS",
        "partition" -> inputs.partition.toString,
        "cap" -> spec.limits.maxRecords.toString
      )
    if (observer != null) observer.kept(side, row)
    state.append(side, row)
  }

  /**
   * @param time
   *   index of the late event-time column of the input
   * @param watermark
   *   watermark that it is below, in microseconds
   */
  final protected def dropLate(side: Side, row: InternalRow, time: Int, watermark: Long): Unit = {
    late += 1
    lateBySide.get(side).foreach(_ += 1)
    inputs.lateRows.foreach(_.add(side, row, time, watermark))
  }
}
