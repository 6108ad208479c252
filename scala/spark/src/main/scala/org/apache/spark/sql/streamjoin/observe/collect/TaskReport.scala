package org.apache.spark.sql.streamjoin.observe.collect

import org.apache.spark.util.AccumulatorV2

import streamjoin.core.Side

/**
 * A task's report about its state and its work, with more detail than Spark's metrics, which are
 * sums over tasks.
 *
 * @param lowest
 *   by watermark key: the lowest time in state, in microseconds; [[TaskReport.NoRow]] if there is
 *   none
 * @param rows
 *   rows in state, by input
 * @param bytes
 *   bytes of these rows in Spark's format
 * @param in
 *   rows of the batch, by input
 * @param out
 *   number of emitted rows
 * @param millis
 *   from the opening of the state store to its commit
 * @param indexBytes
 *   memory of the index
 * @param observed
 *   the observations about its rows, if they are observed
 */
final private[streamjoin] case class TaskReport(
    lowest: Array[Long],
    rows: Array[Long],
    bytes: Array[Long],
    in: Array[Long],
    var out: Long,
    var millis: Long,
    var indexBytes: Long,
    var observed: Option[RowObserver.Observed] = None
) {
  def add(side: Side, rows: Long, bytes: Long): Unit = {
    this.rows(side.index) += rows
    this.bytes(side.index) += bytes
  }

  def keeps(key: Int, time: Option[Long]): Unit =
    time.foreach(time => lowest(key) = math.min(lowest(key), time))
}

private[streamjoin] object TaskReport {
  val NoRow: Long = Long.MaxValue

  /**
   * @param watermarks
   *   number of watermark keys
   */
  def empty(watermarks: Int): TaskReport =
    TaskReport(Array.fill(watermarks)(NoRow), new Array(2), new Array(2), new Array(2), 0, 0, 0)
}

/** The reports of the tasks of a batch, by partition; a task that ran twice counts once. */
final private[streamjoin] class TaskReports(private var reports: Map[Int, TaskReport] = Map.empty)
    extends AccumulatorV2[(Int, TaskReport), Map[Int, TaskReport]] {
  override def isZero: Boolean = reports.isEmpty
  override def copy(): TaskReports = new TaskReports(reports)
  override def reset(): Unit = reports = Map.empty
  override def add(report: (Int, TaskReport)): Unit = reports += report
  override def merge(other: AccumulatorV2[(Int, TaskReport), Map[Int, TaskReport]]): Unit =
    reports ++= other.value
  override def value: Map[Int, TaskReport] = reports

  /** By watermark key: the lowest time in state over all tasks, if any row is kept. */
  def lowest: Map[Int, Long] = (for {
    report <- reports.valuesIterator
    (time, key) <- report.lowest.iterator.zipWithIndex if time != TaskReport.NoRow
  } yield key -> time).toSeq.groupMapReduce(_._1)(_._2)(math.min)

  /** The observations of the tasks about their rows. */
  def observed: Seq[RowObserver.Observed] = reports.valuesIterator.flatMap(_.observed).toSeq

  /** A figure over all tasks. */
  def sum(figure: TaskReport => Long): Long = reports.valuesIterator.map(figure).sum
}
