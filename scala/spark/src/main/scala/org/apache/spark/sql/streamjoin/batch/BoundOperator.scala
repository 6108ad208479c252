package org.apache.spark.sql.streamjoin.batch

import org.apache.spark.sql.streamjoin.base.OwnExec
import org.apache.spark.sql.streamjoin.checkpoint.{InputOutline, OperatorOutline}
import org.apache.spark.sql.streamjoin.observe.collect.{ObservedRows, TaskReports}
import org.apache.spark.sql.streamjoin.watermark.{
  ColumnWatermark,
  Passed,
  ReceivedWatermarks,
  WatermarkId,
  WatermarkValues
}

/** A stateful operator, as seen by its batch and by the reports on the batch. */
private[streamjoin] trait BoundOperator extends OwnExec {

  /** Position among our operators in the query, from the inputs up. It identifies the state. */
  def ordinal: Int

  def numPartitions: Int

  /** The batch, or none if the plan is only explained. */
  def binding: Option[BatchBinding]

  /** Watermarks received, by watermark key. */
  def watermarks: IndexedSeq[ColumnWatermark]

  /** The watermarks that it receives, and which of them belong to times that it compares. */
  def received: ReceivedWatermarks

  /**
   * The newest time of an input's first event-time column, in microseconds.
   *
   * @param marked
   *   the newest times at the marks
   */
  final def newest(input: InputOutline, marked: Map[WatermarkId, Long]): Option[Long] =
    firstTime(input).flatMap(watermarks(_).newest(marked.get))

  /** The watermark key of an input's first event-time column: its rows expire by it first. */
  def firstTime(input: InputOutline): Option[Int] = input.timeColumns.find(watermarks.indices.contains)

  /**
   * How far it has come in a batch with these watermarks.
   *
   * @param newest
   *   the newest times at the marks
   */
  def passed(values: WatermarkValues, newest: Map[WatermarkId, Long]): Passed

  /** The column whose watermark decides the one that Spark's stateful operators above receive. */
  def holdsAbove(values: WatermarkValues): Option[WatermarkId]

  /** Its outline, for the checkpoint. */
  def outline: OperatorOutline

  /** The reports of its tasks once the batch is over. */
  def reports: TaskReports

  /** The lowest time in state for a watermark key after the batch, if any row is kept. */
  final def lowestKept(key: Int): Option[Long] = reports.lowest.get(key)

  /**
   * By watermark key: the lowest time in state after the batch, for the output watermarks that
   * depend on it; `Long.MaxValue` if no row is kept. Empty if some task has not reported it.
   */
  def lowestNeeded: Map[Int, Long] = Map.empty

  /**
   * For an operator that emits in time order, after a batch: the earliest possible time of a future
   * row, in microseconds. Defined only if the state of the operators below gives a tighter bound
   * than the watermarks.
   *
   * @param next
   *   watermarks of the next batch
   * @param late
   *   watermarks against which rows of the next batch are late
   */
  def earliestToCome(next: => WatermarkValues, late: => WatermarkValues): Option[Long] = None

  /**
   * For an operator that emits in time order, after a batch: the lowest time in its state, in
   * microseconds, until it has emitted a row.
   */
  def waitingFrom: Option[Long] = None

  /**
   * Evaluates the observed rows of a finished batch, once.
   *
   * @return
   *   warnings for the log
   */
  private[streamjoin] def warning(observed: ObservedRows): Option[String] = None
}
