package org.apache.spark.sql.streamjoin.watermark

import java.util.UUID

import org.apache.spark.sql.catalyst.util.DateTimeConstants.MICROS_PER_MILLIS
import org.apache.spark.sql.catalyst.util.DateTimeUtils.microsToMillis
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.exchange.ReusedExchangeExec
import org.apache.spark.sql.execution.streaming.StreamingQueryPlanTraverseHelper
import org.apache.spark.sql.execution.streaming.operators.stateful.{EventTimeStats, EventTimeWatermarkExec}

import streamjoin.core.Watermark

/**
 * The watermarks of one batch of a query, for all keys, and the computation of those of the next
 * batch.
 *
 * `W(N, k) = max(W(N-1, k), max event time seen in batches < N, minus the delay)`: it never
 * decreases.
 *
 * @param millis
 *   watermarks by key, in milliseconds
 * @param ordered
 *   by ordinal of an operator that emits in time order: the earliest time that may still arrive, in
 *   microseconds ([[WatermarkValues.ordered]])
 * @param inputs
 *   by key: state of inputs in addition to the watermark
 * @param heard
 *   when inputs that may become idle last had a row
 * @param waiting
 *   by ordinal of an operator that emits in time order and has emitted nothing yet: the lowest time
 *   in its state, in microseconds
 * @param lowestKept
 *   how old the rows in state are
 * @param continuity
 *   what counts if the query has been changed, or will be
 * @param isOfQueryBefore
 *   whether another query has run the batch, and the next one is the first of this query
 * @param newestMillis
 *   by key: the newest event time so far, in milliseconds; none if there was no row, or if it is
 *   not known
 */
final private[streamjoin] case class QueryWatermarks(
    keys: WatermarkKeys,
    millis: IndexedSeq[Option[Long]],
    ordered: Map[Int, Long] = Map.empty,
    inputs: Map[Int, InputState] = Map.empty,
    heard: LastHeard = LastHeard(),
    waiting: Map[Int, Long] = Map.empty,
    lowestKept: LowestKept = LowestKept.none,
    continuity: Continuity = Continuity.none,
    isOfQueryBefore: Boolean = false,
    newestMillis: IndexedSeq[Option[Long]] = IndexedSeq.empty
) {

  /** For eviction, in microseconds. */
  def values(spark: Long): WatermarkValues = evicting(spark, floors, ceilings)

  private def floors: Map[Int, Passed] = continuity.floors.keys
    .flatMap(ordinal => continuity.floor(ordinal).map(floor => ordinal -> floor.passed))
    .toMap

  private def ceilings: Map[Int, Passed] = if (isOfQueryBefore) floors else Map.empty

  /** For eviction, as if the query had never been another one. */
  def valuesOfPlan(spark: Long): WatermarkValues = evicting(spark)

  /** For late rows, in microseconds: each input is judged by its own watermark. */
  def forLateness(spark: Long): WatermarkValues =
    values(byOrigin(millis), spark, lowestKept.judged, ceilings = ceilings)

  /** Updates the bounds of operators that emit in time order; they never decrease. */
  def ordered(now: Map[Int, Long]): QueryWatermarks = copy(ordered = ordered ++ now.map {
    case (ordinal, time) => ordinal -> ordered.get(ordinal).fold(time)(math.max(_, time))
  })

  private def evicting(
      spark: Long,
      floors: Map[Int, Passed] = Map.empty,
      ceilings: Map[Int, Passed] = Map.empty
  ): WatermarkValues = values(forEviction, spark, lowestKept.carried, floors, ceilings)

  private def values(
      keyed: Map[WatermarkId, Long],
      spark: Long,
      kept: Map[(Int, Int), Long],
      floors: Map[Int, Passed] = Map.empty,
      ceilings: Map[Int, Passed] = Map.empty
  ): WatermarkValues =
    new WatermarkValues(
      keyed.withDefaultValue(Watermark.Undefined),
      QueryWatermarks.micros(spark),
      ordered.withDefaultValue(Watermark.Undefined),
      (ordinal, key) => kept.getOrElse((ordinal, key), Watermark.Undefined),
      floors,
      ceilings,
      continuity.weaker
    )

  private def forEviction: Map[WatermarkId, Long] =
    byOrigin(millis.indices.map(key => (millis(key) ++ input(key).carried).maxOption))

  private def input(key: Int): InputState = inputs.getOrElse(key, InputState())

  private def byOrigin(millis: Seq[Option[Long]]): Map[WatermarkId, Long] =
    keys.origins
      .zip(millis)
      .collect { case (origin, Some(ms)) => origin -> QueryWatermarks.micros(ms) }
      .toMap

  def entry: KeyedWatermarks = KeyedWatermarks(
    keys.columns,
    millis,
    ordered,
    inputs,
    heard.last,
    waiting,
    lowestKept = lowestKept,
    continuity = continuity,
    newest = newestMillis
  )

  /**
   * Raises every key to `floor` at least, except where Spark, unlike us, does not wait for all
   * partitions.
   */
  def atLeast(floor: Long): QueryWatermarks = copy(millis = millis.zip(keys.partitioned).map {
    case (known, partitioned) => if (partitioned) known else Some(math.max(known.getOrElse(floor), floor))
  })

  /** If it is not known how far the operators had come with the batch before. */
  def withoutPassed: QueryWatermarks =
    copy(continuity = continuity.copy(passed = Map.empty), newestMillis = IndexedSeq.empty)

  /** The event times from which these watermarks follow, in microseconds. */
  def newest(executed: SparkPlan): Map[WatermarkId, Long] = {
    val known = keys.origins.zip(millis).toMap
    QueryWatermarks.byOrigin(executed).flatMap { case (origin, mark) =>
      known.getOrElse(origin, None).map(ms => origin -> QueryWatermarks.micros(ms + mark.delayMs))
    }
  }

  /**
   * The newest event times so far, in microseconds: a watermark may wait for the slowest partition
   * of its input.
   */
  def newestSeen(executed: SparkPlan): Map[WatermarkId, Long] = {
    val seen = keys.origins.indices.flatMap { key =>
      newestMillis.lift(key).flatten.map(ms => keys.origins(key) -> QueryWatermarks.micros(ms))
    }
    (newest(executed).toSeq ++ seen).groupMapReduce(_._1)(_._2)(math.max)
  }

  /** With the newest event times so far, as the checkpoint stores them. */
  def withNewest(executed: SparkPlan): QueryWatermarks = {
    val newest = newestSeen(executed)
    copy(newestMillis = keys.origins.map(newest.get(_).map(microsToMillis)))
  }

  /** Called at the start of a run. */
  def begun(time: Long, acrossRuns: Boolean): QueryWatermarks =
    copy(heard = heard.beginning(mayBeIdle, time, acrossRuns))

  private def mayBeIdle: Seq[Int] = keys.origins.indices.filter(keys.idleAfterMs(_).isDefined)

  /** Whether the watermarks for eviction differ. */
  def evictsOtherThan(other: QueryWatermarks): Boolean = forEviction != other.forEviction

  /**
   * When the input of a column last had a row, if the column's watermark is that of an idle input.
   */
  def idleSince(column: ColumnWatermark): Option[Long] =
    CarriedWatermarks.marks(column).flatMap(mark => input(keys.origins.indexOf(mark)).firstIdle).minOption

  /**
   * Determines which inputs are idle at a time, and how far the others advance their watermarks.
   *
   * @param time
   *   time of a batch from the offset log, in milliseconds
   * @param operators
   *   the watermarks that our operators receive
   * @param spark
   *   Spark's own watermark
   */
  def idleAt(
      time: Long,
      operators: => Seq[ReceivedWatermarks],
      spark: Long
  ): QueryWatermarks = {
    val judged = copy(inputs = keys.origins.indices.map(key => key -> idleAt(key, time)).toMap)
    val silent = keys.origins.indices.filter(judged.input(_).since.isDefined).map(keys.origins).toSet
    val carried =
      if (silent.isEmpty) judged.forEviction
      else
        new CarriedWatermarks(operators, silent)
          .carried(judged.forEviction, values(_, spark, lowestKept.carried))
    val carriedOn = judged.inputs.map { case (key, input) =>
      val reached = carried.get(keys.origins(key)).map(microsToMillis)
      key -> input.copy(carried = reached.filter(ms => millis(key).forall(_ < ms)))
    }
    copy(inputs = carriedOn.filterNot(_._2.isEmpty))
  }

  /** Determines whether an input or a partition of it is idle. Others do not advance it yet. */
  private def idleAt(key: Int, time: Long): InputState = {
    def last(known: Option[Long], partition: Option[String]): Option[Long] =
      keys.idleAfterMs(key).flatMap(timeout => known.orElse(heard.before(key, partition, time, timeout)))
    val before = input(key)
    val now = before.copy(
      since = last(before.since, None),
      partitions = before.partitions.map { case (name, partition) =>
        name -> partition.copy(since = last(partition.since, Some(name)))
      }
    )
    now.copy(carried = (now.carried ++ now.slowestActive).maxOption)
  }

  /**
   * The watermarks after a batch that ran with these, computed from the event times in its plan. In
   * a self-join, the copies of a mark share one watermark, that of the newest row in any of them,
   * as in Spark (`WatermarkTracker`).
   *
   * @param time
   *   time of the batch from the offset log, in milliseconds
   */
  def after(executed: SparkPlan, time: Long): QueryWatermarks = {
    val seen = for {
      (origin, mark) <- QueryWatermarks.byOrigin(executed).toSeq
      stats = QueryWatermarks.stats(mark) if stats.count > 0
    } yield (origin.node, stats.max, mark.delayMs)
    val newest = seen.groupMapReduce(_._1) { case (_, time, delayMs) => time - delayMs }(math.max)
    val times = seen.groupMapReduce(_._1)(_._2)(math.max)
    val partitions = QueryWatermarks.partitions(executed)
    val spoke = keys.origins.indices.filter(key => newest.contains(keys.origins(key).node))
    val spoken = spoke.map { key =>
      key -> input(key)
        .spoken(partitions.getOrElse(keys.origins(key).node, Map.empty))
        .by(keys.per(key))
    }.toMap
    val parts: Seq[(Int, Option[String])] = for {
      key <- spoke
      name <- partitions.getOrElse(keys.origins(key).node, Map.empty).keys.toSeq
    } yield key -> Some(name)
    copy(
      millis = keys.origins.indices.map { key =>
        val reached =
          if (keys.partitioned(key)) spoken.get(key).flatMap(_.slowest)
          else newest.get(keys.origins(key).node)
        (millis(key) ++ reached).maxOption
      },
      newestMillis = keys.origins.indices.map { key =>
        (newestMillis.lift(key).flatten ++ times.get(keys.origins(key).node)).maxOption
      },
      inputs = inputs ++ spoken,
      heard = heard.now((spoke.map(_ -> None) ++ parts).filter(of => mayBeIdle.contains(of._1)), time)
    )
  }
}

private[streamjoin] object QueryWatermarks {
  def none(keys: WatermarkKeys): QueryWatermarks = QueryWatermarks(keys, keys.origins.map(_ => None))

  /** Restores the watermarks of a log entry. */
  def read(keys: WatermarkKeys, entry: KeyedWatermarks): QueryWatermarks =
    QueryWatermarks(
      keys,
      entry.millis,
      entry.ordered,
      entry.inputs.map { case (key, input) => key -> input.by(keys.per(key)) },
      LastHeard(last = entry.heard),
      entry.waiting,
      entry.lowestKept,
      entry.continuity,
      newestMillis = entry.newest
    )

  private def stats(mark: EventTimeWatermarkExec): EventTimeStats = mark.child match {
    case times: NewestTimeExec => times.stats.value
    case _ => mark.eventTimeStats.value
  }

  private def byOrigin(executed: SparkPlan): Map[WatermarkId, EventTimeWatermarkExec] = {
    val all = marks(executed)
    WatermarkId.number(all.map(_.nodeId)).zip(all).toMap
  }

  /**
   * The marks in an executed plan, top down and left to right. If two copies of a stream are
   * shuffled in the same way, Spark runs one exchange for both, and the second is a leaf of the
   * plan (`ReuseExchangeAndSubquery`).
   */
  private def marks(executed: SparkPlan): Seq[EventTimeWatermarkExec] =
    StreamingQueryPlanTraverseHelper
      .collectFromUnfoldedPlan(executed) {
        case mark: EventTimeWatermarkExec => Seq(mark)
        case reused: ReusedExchangeExec => marks(reused.child)
      }
      .flatten

  /** The watermark of each partition that had rows in a batch, by mark id. */
  private def partitions(executed: SparkPlan): Map[UUID, Map[String, Long]] = {
    val delays = marks(executed).map(mark => mark.nodeId -> mark.delayMs).toMap
    val all =
      for (times <- partitionTimes(executed); (name, newest) <- times.times.value)
        yield (times.mark, name) -> (newest - delays(times.mark))
    all
      .groupMapReduce(_._1)(_._2)(math.max)
      .toSeq
      .groupMap(_._1._1) { case ((_, name), ms) => name -> ms }
      .map { case (mark, newest) =>
        mark -> newest.toMap
      }
  }

  private def partitionTimes(executed: SparkPlan): Seq[PartitionTimesExec] =
    StreamingQueryPlanTraverseHelper
      .collectFromUnfoldedPlan(executed) {
        case times: PartitionTimesExec => Seq(times)
        case reused: ReusedExchangeExec => partitionTimes(reused.child)
      }
      .flatten

  /** Saturates at the ends of the range. */
  private def micros(millis: Long): Long =
    if (millis >= Long.MaxValue / MICROS_PER_MILLIS) Long.MaxValue
    else if (millis <= Long.MinValue / MICROS_PER_MILLIS) Watermark.Undefined
    else millis * MICROS_PER_MILLIS
}
