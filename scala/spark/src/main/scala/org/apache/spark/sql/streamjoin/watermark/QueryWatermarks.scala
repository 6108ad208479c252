package org.apache.spark.sql.streamjoin.watermark

import org.apache.spark.sql.catalyst.util.DateTimeConstants.MICROS_PER_MILLIS
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.exchange.ReusedExchangeExec
import org.apache.spark.sql.execution.streaming.StreamingQueryPlanTraverseHelper
import org.apache.spark.sql.execution.streaming.operators.stateful.{EventTimeStats, EventTimeWatermarkExec}

import streamjoin.core.Watermark

/**
 * The watermarks of one batch of a query, all keys, and how to get those of the next batch from
 * them.
 *
 * `W(N, k) = max(W(N-1, k), max event time seen in batches < N, minus the delay)`: it never goes
 * back.
 *
 * @param millis
 *   by key
 * @param ordered
 *   by the ordinal of an operator that emits its rows in the order of a time: the earliest time that
 *   may still come, in microseconds ([[WatermarkValues.ordered]])
 */
final private[streamjoin] case class QueryWatermarks(
    keys: WatermarkKeys,
    millis: IndexedSeq[Option[Long]],
    ordered: Map[Int, Long]
) {

  /** For evaluation, in microseconds. */
  def values(spark: Long): WatermarkValues =
    new WatermarkValues(
      keys.origins
        .zip(millis)
        .collect { case (origin, Some(ms)) => origin -> QueryWatermarks.micros(ms) }
        .toMap
        .withDefaultValue(Watermark.Undefined),
      QueryWatermarks.micros(spark),
      ordered.withDefaultValue(Watermark.Undefined)
    )

  def entry: KeyedWatermarks = KeyedWatermarks(keys.columns, millis, ordered)

  /** Those of operators that emit in the order of a time; they do not go back. */
  def ordered(now: Map[Int, Long]): QueryWatermarks = copy(ordered = ordered ++ now.map {
    case (ordinal, time) => ordinal -> ordered.get(ordinal).fold(time)(math.max(_, time))
  })

  /** At least `floor` for every key. */
  def atLeast(floor: Long): QueryWatermarks =
    copy(millis = millis.map(known => Some(math.max(known.getOrElse(floor), floor))))

  /** The newest event times that have come up to these watermarks, in microseconds. */
  def newest(executed: SparkPlan): Map[Origin, Long] = {
    val known = keys.origins.zip(millis).toMap
    QueryWatermarks.byOrigin(executed).flatMap { case (origin, mark) =>
      known.getOrElse(origin, None).map(ms => origin -> QueryWatermarks.micros(ms + mark.delayMs))
    }
  }

  /**
   * After a batch that ran with these watermarks, from the event times that its plan saw. The
   * copies of a mark, in a stream that is joined with itself, have one watermark, that of the
   * newest row in any of them: so it is in Spark (`WatermarkTracker`).
   */
  def after(executed: SparkPlan): QueryWatermarks = {
    val seen = for {
      (origin, mark) <- QueryWatermarks.byOrigin(executed).toSeq
      stats = QueryWatermarks.stats(mark) if stats.count > 0
    } yield origin.node -> (stats.max - mark.delayMs)
    val newest = seen.groupMapReduce(_._1)(_._2)(math.max)
    copy(millis = keys.origins.zip(millis).map { case (origin, known) =>
      (known ++ newest.get(origin.node)).reduceOption(math.max(_, _))
    })
  }
}

private[streamjoin] object QueryWatermarks {
  def none(keys: WatermarkKeys): QueryWatermarks =
    QueryWatermarks(keys, keys.origins.map(_ => None), Map.empty)

  /** As they were written. */
  def read(keys: WatermarkKeys, entry: KeyedWatermarks): QueryWatermarks =
    QueryWatermarks(keys, entry.millis, entry.ordered)

  private def stats(mark: EventTimeWatermarkExec): EventTimeStats = mark.child match {
    case times: NewestTimeExec => times.stats.value
    case _ => mark.eventTimeStats.value
  }

  private def byOrigin(executed: SparkPlan): Map[Origin, EventTimeWatermarkExec] = {
    val all = marks(executed)
    Origin.number(all.map(_.nodeId)).zip(all).toMap
  }

  /**
   * The marks in a plan that was executed, top down and left to right. Where two copies of a stream
   * are shuffled alike, Spark runs one exchange for both, and the second stands in the plan as a
   * leaf (`ReuseExchangeAndSubquery`).
   */
  private def marks(executed: SparkPlan): Seq[EventTimeWatermarkExec] =
    StreamingQueryPlanTraverseHelper
      .collectFromUnfoldedPlan(executed) {
        case mark: EventTimeWatermarkExec => Seq(mark)
        case reused: ReusedExchangeExec => marks(reused.child)
      }
      .flatten

  /** The ends of the range hold. */
  private def micros(millis: Long): Long =
    if (millis >= Long.MaxValue / MICROS_PER_MILLIS) Long.MaxValue
    else if (millis <= Long.MinValue / MICROS_PER_MILLIS) Watermark.Undefined
    else millis * MICROS_PER_MILLIS
}
