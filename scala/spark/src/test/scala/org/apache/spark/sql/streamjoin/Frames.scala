package org.apache.spark.sql.streamjoin

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.classic.{Dataset => ClassicDataset}
import org.apache.spark.sql.streamjoin.joins.delta.DeltaJoins
import org.apache.spark.sql.streamjoin.joins.order.WindowJoins
import org.apache.spark.sql.streamjoin.joins.temporal.AsOfJoins
import org.apache.spark.sql.{Column, DataFrame, Row, SparkSession}

import streamjoin.core.{JoinWindows, Side}

/** Calls of functions with all of their arguments at once, and with what no function takes. */
private[streamjoin] object Frames {
  import ScalaApi.invoke

  def temporal(
      joined: DataFrame,
      key: Seq[String] = Seq("id"),
      time: String = "t",
      op: Option[String] = None,
      asOf: String = "t",
      history: Option[String] = None,
      order: Option[String] = None,
      ordered: Boolean = true,
      unavailable: Option[String] = None
  ): DataFrame = invoke(joined, "sj_temporal_join")(
    "key" -> key,
    "time" -> time,
    "op" -> op,
    "order" -> order,
    "as_of" -> asOf,
    "history" -> history,
    "ordered" -> ordered,
    "unavailable" -> unavailable,
    "as_sent" -> unavailable.isEmpty
  )

  def asof(joined: DataFrame, condition: Column, tolerance: Option[String]): DataFrame =
    invoke(joined, "sj_asof_join", condition)("tolerance" -> tolerance)

  def asof(joined: DataFrame, condition: String, tolerance: Option[String]): DataFrame =
    invoke(joined, "sj_asof_join")("match" -> condition, "tolerance" -> tolerance)

  def inDirection(
      joined: DataFrame,
      direction: String,
      allowsExact: Boolean,
      tolerance: Option[String],
      ordered: Boolean
  ): DataFrame = invoke(joined, "sj_asof_join")(
    "direction" -> direction,
    "allow_exact_matches" -> allowsExact,
    "tolerance" -> tolerance,
    "ordered" -> ordered
  )

  /** By the names of the event-time columns, with a watermark or without. */
  def closest(
      joined: DataFrame,
      leftTime: String,
      rightTime: String,
      direction: String,
      allowsExact: Boolean,
      tolerance: Option[String],
      ordered: Boolean = true
  ): DataFrame = rewritten(joined) {
    new AsOfJoins("sj.asof_join", "as-of", ordered = ordered).asOf(
      _,
      leftTime,
      rightTime,
      direction,
      allowsExact,
      tolerance
    )
  }

  /** Windows over one input or both. */
  def windows(joined: DataFrame, windows: JoinWindows): DataFrame =
    rewritten(joined)(WindowJoins.of(_, windows))

  def windows(joined: DataFrame, lengths: Map[Side, String]): DataFrame =
    rewritten(joined)(WindowJoins.of(_, lengths))

  def delta(
      session: SparkSession,
      inputs: Seq[(String, String)],
      on: String,
      select: Seq[String] = Nil,
      how: String = "inner",
      options: Map[String, String] = Map.empty
  ): DataFrame = invoke(DeltaJoins.written(session, inputs, Some(on), select, options), "sj_delta_join")(
    "names" -> inputs.map(_._1),
    "how" -> how
  )

  def sorted(df: DataFrame, time: String): DataFrame = invoke(df, "sj_sorted")("time" -> time)

  def imposeOrder(df: DataFrame, time: String, lag: String): DataFrame =
    invoke(df, "sj_impose_order")("time" -> time, "lag" -> lag)

  def idleAfter(df: DataFrame, timeout: String): DataFrame = invoke(df, "sj_idle_after")("after" -> timeout)

  def withBounds(
      df: DataFrame,
      time: String,
      isBound: String,
      lag: Option[String] = None,
      per: Option[String] = None
  ): DataFrame =
    invoke(df, "sj_with_bounds")("time" -> time, "is_bound" -> isBound, "lag" -> lag, "per" -> per)

  private def rewritten(frame: DataFrame)(change: LogicalPlan => LogicalPlan): DataFrame = {
    val classic = frame.asInstanceOf[ClassicDataset[Row]]
    classic.sparkSession.withActive {
      ClassicDataset.ofRows(classic.sparkSession, change(classic.queryExecution.analyzed))
    }
  }
}
