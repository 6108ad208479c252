package org.apache.spark.sql.streamjoin

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.classic.{Dataset => ClassicDataset}
import org.apache.spark.sql.streamjoin.analysis.StreamInput
import org.apache.spark.sql.{DataFrame, Row}

/**
 * What a query may declare about one of its streams beyond `withWatermark`. Each function returns
 * the stream to use in the join instead.
 *
 * Durations are text, as in `withWatermark`: `"10 seconds"`, `"1 hour 30 minutes"`.
 */
object StreamInputs {

  /**
   * `withWatermark`, with its arguments checked.
   *
   * @param time
   *   `TIMESTAMP` column. A null in it does not move the watermark.
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
   * lag, is still to come: it moves the watermark of the following batches and is then dropped. A
   * bound that goes back in time moves nothing.
   *
   * @param time
   *   event-time column, of data and bounds alike
   * @param isBound
   *   boolean column: true for a bound, false or null for data. It is not in the result.
   * @param lag
   *   as in [[imposeOrder]]; none if the column already has a watermark
   * @param per
   *   column that identifies the stream's partitions, if each has its own bounds. The watermark is
   *   then the lowest of the partitions that have sent a row.
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
   *   one millisecond or longer
   */
  def idleAfter(df: DataFrame, timeout: String): DataFrame =
    changed(df)(new StreamInput("sj.idle_after").idleAfter(_, timeout))

  private def changed(df: DataFrame)(change: LogicalPlan => LogicalPlan): DataFrame = {
    val dataset = df.asInstanceOf[ClassicDataset[Row]]
    ClassicDataset.ofRows(dataset.sparkSession, change(dataset.queryExecution.analyzed))
  }
}
