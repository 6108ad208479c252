package org.apache.spark.sql.streamjoin

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.classic.{Dataset => ClassicDataset}
import org.apache.spark.sql.streamjoin.analysis.StreamInput
import org.apache.spark.sql.{DataFrame, Row}

/**
 * What a query may say of one of its streams beyond `withWatermark`. Each function returns the
 * stream, to be joined in its place.
 *
 * Durations are text as `withWatermark` takes it: `"10 seconds"`, `"1 hour 30 minutes"`.
 */
object StreamInputs {

  /**
   * `withWatermark` that checks its arguments.
   *
   * @param time
   *   a `TIMESTAMP` column. A null in it does not move the watermark.
   * @param lag
   *   how late a row may be, zero or longer; rounded up to whole milliseconds
   */
  def imposeOrder(df: DataFrame, time: String, lag: String): DataFrame =
    changed(df)(new StreamInput("sj.impose_order").imposeOrder(_, time, lag))

  /** The rows in ascending order of a column that has a watermark. */
  def ordered(df: DataFrame, time: String): DataFrame =
    changed(df)(new StreamInput("sj.impose_order").ordered(_, time))

  /**
   * A stream whose rows are data and bounds. A bound says that no row before its time, minus the
   * lag, is still to come: it moves the watermark, for the batches after its own, and is then
   * dropped. One that goes back in time moves nothing.
   *
   * @param time
   *   the event-time column, of data and bounds alike
   * @param isBound
   *   a boolean column: true for a bound, false or null for data. It is not in the result.
   * @param lag
   *   as in [[imposeOrder]]; none where the column has its watermark already
   * @param per
   *   a column that tells the partitions of the stream apart, where each has bounds of its own. The
   *   watermark is then the lowest of the partitions that have spoken.
   */
  def withBounds(
      df: DataFrame,
      time: String,
      isBound: String,
      lag: Option[String] = None,
      per: Option[String] = None
  ): DataFrame =
    changed(df)(new StreamInput("sj.with_bounds").withBounds(_, time, isBound, lag, per))

  /**
   * A stream that stops holding others back once it has had no row for a time.
   *
   * @param timeout
   *   a millisecond or longer
   */
  def idleAfter(df: DataFrame, timeout: String): DataFrame =
    changed(df)(new StreamInput("sj.idle_after").idleAfter(_, timeout))

  private def changed(df: DataFrame)(change: LogicalPlan => LogicalPlan): DataFrame = {
    val dataset = df.asInstanceOf[ClassicDataset[Row]]
    ClassicDataset.ofRows(dataset.sparkSession, change(dataset.queryExecution.analyzed))
  }
}
