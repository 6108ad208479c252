package org.apache.spark.sql.streamjoin.operator

import org.apache.hadoop.conf.Configuration

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streamjoin.base.{Figures, SharedServer, StreamJoinConf, StreamJoinErrors}
import org.apache.spark.sql.streamjoin.laterows.{LateRows, LateRowsWriter}
import org.apache.spark.sql.streamjoin.observe.collect.{RowObserver, TaskReport}
import org.apache.spark.sql.streamjoin.state.{JoinState, RowLayout}

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

/** The metrics of an operator, by name. A task looks each of them up once, not row by row. */
final private[streamjoin] class TaskMetrics(all: Map[String, SQLMetric]) {
  def apply(name: String): SQLMetric = all(name)

  def bySide(name: String): Map[Side, SQLMetric] =
    Side.both.flatMap(side => all.get(Figures.ofSide(Some(side.name), name)).map(side -> _)).toMap
}

/**
 * What each task of a batch needs, as data: how it opens its [[JoinState]], and the work that it
 * does. It goes to the tasks, and knows no plans.
 */
private[streamjoin] trait StateSpec extends Serializable {

  /** Row layout of each buffer: of the left and the right input, or of the only one. */
  def layouts: Seq[RowLayout]

  /** Bucket width of each buffer, in microseconds. */
  def bucketWidths: Seq[Long]

  def limits: BufferLimits

  /** Where to write late rows, if they are kept. */
  def lateRows: Option[LateRows.Spec]

  /**
   * By input: the newest event time, in microseconds, from which its watermark follows; none if
   * rows are not observed.
   */
  def observed: Option[Seq[Option[Long]]]

  /** Whether to observe which keys come, too. */
  def samplesKeys: Boolean = false

  /** The side that a task reads while another one keeps it. */
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
   *   partition of the task that keeps the side
   */
  final case class Replicated(side: Side, cap: Long, keeper: Int)
}

/**
 * What a task works on.
 *
 * @param rows
 *   those of each input
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
 * The work of one task in one batch, which buffers rows: which of them are counted, and which are
 * too many or too late.
 */
abstract private[streamjoin] class BufferingTask(
    spec: StateSpec,
    inputs: TaskInputs
) {
  protected val state: JoinState = inputs.state
  protected val metrics: TaskMetrics = inputs.metrics

  /** Once it is consumed, the state is ready to be committed, after [[finish]]. */
  def output: Iterator[InternalRow]

  def finish(): Unit

  /**
   * Rows in state now or earlier in this batch. A row that leaves within the batch still counts, so
   * that the order of rows does not matter.
   */
  private var buffered = state.rows

  /** Null if rows are not observed, as this is asked for each row. */
  final protected val observer: RowObserver =
    spec.observed.map(new RowObserver(_, spec.layouts, spec.samplesKeys)).orNull

  /** About the rows of the batch, where they are observed. */
  final def observed: Option[RowObserver.Observed] = Option(observer).map(_.report)

  private val came = new Array[Long](2)

  /** Rows that came in the batch, by input. */
  final def cameIn: Array[Long] = came

  /** Counts the rows of an input as they come. */
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

  /** Fails before anything of the batch is committed if there are too many rows. */
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
   *   which of the input's event-time columns is late
   * @param watermark
   *   what it is below, in microseconds
   */
  final protected def dropLate(side: Side, row: InternalRow, time: Int, watermark: Long): Unit = {
    late += 1
    lateBySide.get(side).foreach(_ += 1)
    inputs.lateRows.foreach(_.add(side, row, time, watermark))
  }
}
