package org.apache.spark.sql.streamjoin

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.streamjoin.analysis.{RewrittenFrame, StreamInput}
import org.apache.spark.sql.streamjoin.joins.order.RowtimeOrder

/**
 * What [[streamjoin.StreamInputs]] makes of a stream; that has the descriptions. Durations are
 * text.
 */
object StreamInputs {
  def imposeOrder(df: DataFrame, time: String, lag: String): DataFrame =
    RewrittenFrame.of(df)(new StreamInput("sj.impose_order").imposeOrder(_, time, lag))

  def ordered(df: DataFrame, time: String): DataFrame =
    RewrittenFrame.of(df)(RowtimeOrder.of(_, time))

  def withBounds(
      df: DataFrame,
      time: String,
      isBound: String,
      lag: Option[String] = None,
      per: Option[String] = None
  ): DataFrame =
    RewrittenFrame.of(df)(new StreamInput("sj.with_bounds").withBounds(_, time, isBound, lag, per))

  def idleAfter(df: DataFrame, timeout: String): DataFrame =
    RewrittenFrame.of(df)(new StreamInput("sj.idle_after").idleAfter(_, timeout))
}
