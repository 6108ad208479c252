package org.apache.spark.sql.streamjoin.watermark

import org.apache.spark.sql.catalyst.util.DateTimeConstants.MICROS_PER_MILLIS
import org.apache.spark.sql.catalyst.util.DateTimeUtils.microsToMillis
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
 * @param idle
 *   by key: of the inputs that are idle, or were
 * @param heard
 *   by key: when the input had its last row in this run, in milliseconds. Not in the checkpoint.
 */
final private[streamjoin] case class QueryWatermarks(
    keys: WatermarkKeys,
    millis: IndexedSeq[Option[Long]],
    idle: Map[Int, IdleInput] = Map.empty,
    heard: Map[Int, Long] = Map.empty
) {

  /** For eviction, in microseconds. */
  def values(spark: Long): WatermarkValues = values(forEviction, spark)

  /** For late rows, in microseconds: each input is judged by what it has said itself. */
  def judging(spark: Long): WatermarkValues = values(byOrigin(millis), spark)

  private def values(keyed: Map[Origin, Long], spark: Long): WatermarkValues =
    new WatermarkValues(keyed.withDefaultValue(Watermark.Undefined), QueryWatermarks.micros(spark))

  private def forEviction: Map[Origin, Long] =
    byOrigin(millis.indices.map(key => (millis(key) ++ idle.get(key).flatMap(_.carried)).maxOption))

  private def byOrigin(millis: Seq[Option[Long]]): Map[Origin, Long] =
    keys.origins
      .zip(millis)
      .collect { case (origin, Some(ms)) => origin -> QueryWatermarks.micros(ms) }
      .toMap

  def entry: KeyedWatermarks = KeyedWatermarks(keys.columns, millis, idle)

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

  /** At the start of a run: how long an input was silent before it is unknown. */
  def begun(time: Long): QueryWatermarks = copy(heard = keys.origins.indices.map(_ -> time).toMap)

  /** The same event times, and rows are evicted by others. */
  def evictsOtherThan(other: QueryWatermarks): Boolean = forEviction != other.forEviction

  /** When the input of a column had its last row, if the column has its watermark from an idle one. */
  def idleSince(column: ColumnWatermark): Option[Long] =
    IdleInputs.marks(column).flatMap(mark => idle.get(keys.origins.indexOf(mark))).flatMap(_.since).minOption

  /**
   * With the inputs that are idle at a time, and how far the others carry their watermarks.
   *
   * @param time
   *   of a batch, as it is in the offset log, in milliseconds
   * @param operators
   *   of ours: by ordinal, the watermarks that they receive
   * @param spark
   *   Spark's own watermark
   */
  def idleAt(
      time: Long,
      operators: => Seq[(Int, IndexedSeq[ColumnWatermark])],
      spark: Long
  ): QueryWatermarks = {
    val since = for {
      (Some(timeout), key) <- keys.idleAfterMs.zipWithIndex
      last <- idle.get(key).flatMap(_.since).orElse(heard.get(key).filter(time - _ >= timeout))
    } yield key -> last
    val silent = since.map { case (key, _) => keys.origins(key) }.toSet
    val carried =
      if (silent.isEmpty) forEviction
      else new IdleInputs(operators, silent).carried(forEviction, QueryWatermarks.micros(spark))
    val inputs = keys.origins.zipWithIndex.map { case (origin, key) =>
      val reached = carried.get(origin).map(microsToMillis).filter(ms => millis(key).forall(_ < ms))
      key -> IdleInput(since.toMap.get(key), reached)
    }
    copy(idle = inputs.filter(_._2 != IdleInput.No).toMap)
  }

  /**
   * After a batch that ran with these watermarks, from the event times that its plan saw. The
   * copies of a mark, in a stream that is joined with itself, have one watermark, that of the
   * newest row in any of them: so it is in Spark (`WatermarkTracker`).
   *
   * @param time
   *   of the batch, as it is in the offset log, in milliseconds
   */
  def after(executed: SparkPlan, time: Long): QueryWatermarks = {
    val seen = for {
      (origin, mark) <- QueryWatermarks.byOrigin(executed).toSeq
      stats = QueryWatermarks.stats(mark) if stats.count > 0
    } yield origin.node -> (stats.max - mark.delayMs)
    val newest = seen.groupMapReduce(_._1)(_._2)(math.max)
    val spoke = keys.origins.indices.filter(key => newest.contains(keys.origins(key).node))
    copy(
      millis = keys.origins.zip(millis).map { case (origin, known) =>
        (known ++ newest.get(origin.node)).reduceOption(math.max(_, _))
      },
      idle = idle.map { case (key, input) => key -> (if (spoke.contains(key)) input.copy(since = None) else input) },
      // A batch that is done again has its old time.
      heard = heard ++ spoke.map(key => key -> heard.get(key).fold(time)(math.max(_, time)))
    )
  }
}

private[streamjoin] object QueryWatermarks {
  def none(keys: WatermarkKeys): QueryWatermarks = QueryWatermarks(keys, keys.origins.map(_ => None))

  def of(keys: WatermarkKeys, entry: KeyedWatermarks): QueryWatermarks =
    QueryWatermarks(keys, entry.millis, entry.idle)

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
