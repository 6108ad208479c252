package org.apache.spark.sql.streamjoin.observe.read

import java.time.Instant

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution
import org.apache.spark.sql.execution.streaming.{ProcessingTimeTrigger, StreamingQueryPlanTraverseHelper}
import org.apache.spark.sql.streaming.{StateOperatorProgress, StreamingQuery, StreamingQueryProgress}
import org.apache.spark.sql.streamjoin.base.{Figures, StreamJoinConf}
import org.apache.spark.sql.streamjoin.batch.{BatchBinding, BoundOperator}
import org.apache.spark.sql.streamjoin.checkpoint.{InputOutline, OperatorOutline}
import org.apache.spark.sql.streamjoin.observe.collect.{
  ObservedRows,
  RowObserver,
  RowPath,
  TaskReport,
  TimeHistogram
}
import org.apache.spark.sql.streamjoin.registry.OperatorKinds
import org.apache.spark.sql.streamjoin.watermark.CarriedWatermarks

import streamjoin.core.Watermark

/**
 * A query after its last batch: its operators and the progress of its last batches.
 *
 * @param roots
 *   the topmost operators
 */
final private[streamjoin] class QueryFigures(
    query: MicroBatchExecution,
    val recent: Seq[StreamingQueryProgress],
    val roots: Seq[OperatorFigures]
) {
  def last: StreamingQueryProgress = recent.last

  /** The batches of the last minute before the last batch. */
  lazy val ofMinute: Seq[StreamingQueryProgress] = {
    val from = Instant.parse(last.timestamp).minusSeconds(60)
    recent.filter(progress => Instant.parse(progress.timestamp).isAfter(from))
  }

  /** The operators, each followed by those below it. */
  lazy val all: Seq[OperatorFigures] = {
    def from(operators: Seq[OperatorFigures]): Seq[OperatorFigures] =
      operators.flatMap(one => one +: from(one.below.flatten))
    from(roots)
  }

  /** The sum over all executors. */
  def cores: Int = query.sparkSession.sparkContext.defaultParallelism

  /** Whether values of keys may be shown. */
  def showsKeys: Boolean = query.sparkSession.sessionState.conf.getConf(StreamJoinConf.UiShowKeys)

  /**
   * How many rows, in all operators, wait for the watermark of an input.
   *
   * @param input
   *   its name
   */
  def waitingFor(input: String): Long = (for {
    of <- all
    (other, at) <- of.outline.inputs.zipWithIndex
    awaited <- of.awaited(other)
    if of.heldBy(of.outline.columns.indexOf(awaited.column)).contains(input)
  } yield of.sum(_.rows(at))).sum

  /** The interval at which it starts batches, in milliseconds; none if it has no fixed interval. */
  def triggerMs: Option[Long] = query.trigger match {
    case ProcessingTimeTrigger(millis) => Some(millis)
    case _ => None
  }
}

private[streamjoin] object QueryFigures {

  /** None before the end of the first batch, or if the query has no streamjoin operator. */
  def of(query: StreamingQuery): Option[QueryFigures] = QueriesByName.execution(query) match {
    case execution: MicroBatchExecution => of(execution)
    case _ => None
  }

  def of(query: MicroBatchExecution): Option[QueryFigures] =
    BatchBinding.lastEnded(query).headOption.flatMap { case (binding, operators) =>
      of(query, binding, operators, batches(query))
    }

  /**
   * The figures after a batch that has just ended; none if the query has no streamjoin operator, or
   * is two batches ahead.
   */
  def of(query: MicroBatchExecution, batch: StreamingQueryProgress): Option[QueryFigures] =
    BatchBinding.lastEnded(query).find(_._1.batch == batch.batchId).flatMap { case (binding, operators) =>
      of(query, binding, operators, batches(query).filter(_.batchId <= batch.batchId))
    }

  /**
   * The progress of the last batches. A query without new rows reports every ten seconds too, with
   * the figures of its last batch.
   */
  private def batches(query: MicroBatchExecution): Seq[StreamingQueryProgress] =
    query.recentProgress.toSeq.filter(_.durationMs.containsKey("addBatch"))

  private def of(
      query: MicroBatchExecution,
      binding: BatchBinding,
      operators: Seq[BoundOperator],
      recent: Seq[StreamingQueryProgress]
  ): Option[QueryFigures] = Option.when(operators.nonEmpty && recent.nonEmpty) {
    val nested = operators.flatMap(below).toSet
    def figures(exec: BoundOperator): OperatorFigures = new OperatorFigures(
      exec,
      binding,
      recent,
      exec.children.map { child =>
        val inside = operatorsIn(child)
        val deeper = inside.flatMap(below).toSet
        inside.filterNot(deeper).map(figures)
      }
    )
    new QueryFigures(query, recent, operators.filterNot(nested).map(figures))
  }

  private def operatorsIn(plan: org.apache.spark.sql.execution.SparkPlan): Seq[BoundOperator] =
    StreamingQueryPlanTraverseHelper.collectFromUnfoldedPlan(plan) { case exec: BoundOperator => exec }

  private def below(exec: BoundOperator): Seq[BoundOperator] = exec.children.flatMap(operatorsIn)
}

/**
 * An operator after the last batch.
 *
 * @param below
 *   the operators in each of its inputs
 */
final private[streamjoin] class OperatorFigures(
    exec: BoundOperator,
    binding: BatchBinding,
    recent: Seq[StreamingQueryProgress],
    val below: Seq[Seq[OperatorFigures]]
) {
  val outline: OperatorOutline = exec.outline
  val batch: Long = binding.batch
  val reports: Map[Int, TaskReport] = exec.reports.value
  private val values = binding.valuesAfter

  /** The progress reports of this operator, the most recent one last. */
  private def progress(of: Seq[StreamingQueryProgress]): Seq[StateOperatorProgress] =
    of.flatMap(_.stateOperators).filter { operator =>
      Option(operator.customMetrics.get("join")).exists(_ == outline.ordinal + 1L)
    }

  def last: Option[StateOperatorProgress] = progress(recent).lastOption

  /** The sum of a figure of the progress. */
  def sum(of: Seq[StreamingQueryProgress], figure: String): Long =
    progress(of).flatMap(operator => Option(operator.customMetrics.get(figure)).map(_.longValue)).sum

  def late(of: Seq[StreamingQueryProgress]): Long = progress(of).map(_.numRowsDroppedByWatermark).sum

  def rowsIn(of: Seq[StreamingQueryProgress], input: InputOutline): Long =
    sum(of, Figures.ofSide(input.side, "rowsIn"))

  /** The start of the last batch that had a row of an input, in milliseconds. */
  def lastRow(input: InputOutline): Option[Long] = recent.reverseIterator
    .find(one => sum(Seq(one), Figures.ofSide(input.side, "rowsIn")) > 0)
    .map(one => Instant.parse(one.timestamp).toEpochMilli)

  /** What happened to the rows of an input in the last batch on their way to the operator. */
  def path(at: Int): Option[RowPath] = exec.children.lift(at).map(RowPath.of)

  /** Whether an input reads the same stream as an earlier one: their newest rows are equal. */
  def isRepeated(at: Int): Boolean = {
    def nodes(of: InputOutline) =
      columns(of).flatMap(key => CarriedWatermarks.marks(exec.watermarks(key))).map(_.node).toSet
    outline.inputs.take(at).exists(earlier => nodes(earlier).exists(nodes(outline.inputs(at))))
  }

  /** Whether `sj.idle_after` allows an input to be idle. */
  def mayBeIdle(input: InputOutline): Boolean = {
    val keys = binding.eviction.keys
    columns(input)
      .flatMap(key => CarriedWatermarks.marks(exec.watermarks(key)))
      .exists(mark => keys.idleAfterMs.lift(keys.origins.indexOf(mark)).flatten.isDefined)
  }

  /** How far the delay keeps the watermark of an input behind its newest row, in milliseconds. */
  def delay(input: InputOutline): Option[Long] = for {
    key <- columns(input).headOption
    newest <- exec.newest(input, binding.newestJudging)
    late = exec.watermarks(key).value(binding.lateValues) if late != Watermark.Undefined
  } yield (newest - late) / 1000

  /** Time by phase of the last batch, in milliseconds, over all tasks. */
  def phases: Seq[(String, Long)] = last.toSeq.flatMap { operator =>
    val own = operator.customMetrics.asScala.toSeq.collect {
      case (name, millis) if name.endsWith(Phase) => name.stripSuffix(Phase) -> millis.longValue
    }
    (own :+ ("commit" -> operator.commitTimeMs)).sortBy(_._1)
  }
  private def Phase = "TimeMs"

  // Watermarks, by key.

  def watermark(key: Int): Option[Long] =
    Some(exec.watermarks(key).value(values)).filter(_ != Watermark.Undefined)

  def newest(key: Int): Option[Long] = exec.watermarks(key).newest(binding.newest.get)

  /** The input whose watermark decides that of a column. */
  def heldBy(key: Int): Option[String] = exec.watermarks(key).decidedBy(values).map(binding.inputOf)

  /** The input whose watermark decides the one that Spark's operators above receive. */
  def holdsAbove: Option[String] = exec.holdsAbove(values).map(binding.inputOf)

  // Inputs.

  /**
   * The watermark keys of those event-time columns of an input by which rows expire; the first
   * event time if rows expire by others alone, which they carry.
   */
  def columns(input: InputOutline): Seq[Int] = input.timeColumns.filter(isColumn) match {
    case Seq() => exec.firstTime(input).toSeq
    case found => found
  }

  private def isColumn(key: Int): Boolean = exec.watermarks.indices.contains(key)

  /** Whether each row carries the time at which it leaves. */
  def carriesEnds(input: InputOutline): Boolean = !input.timeColumns.forall(isColumn)

  /** The lowest time in state of the column that expires rows first. */
  def oldest(input: InputOutline): Option[Long] = columns(input).headOption.flatMap(exec.lowestKept)

  /** What the oldest row, or that with the first end, is waiting for. */
  def awaited(input: InputOutline): Option[Leaving.Awaited] = {
    val lowest = input.timeColumns.map(exec.lowestKept)
    for {
      time <- lowest.flatten.headOption
      awaited <- new Leaving(outline, input, watermark).of(lowest.map(_.getOrElse(time)))
    } yield awaited
  }

  def sum(figure: TaskReport => Long): Long = reports.valuesIterator.map(figure).sum

  // Observations of the tasks about their rows.

  /**
   * How far the rows of an input in the last batch were behind the newest row, and how far they are
   * allowed to be, in milliseconds.
   */
  def lateness(input: InputOutline, at: Int): Option[(TimeHistogram, Option[Long])] =
    summed(_.lateness(at)).map(_.fromZero -> delay(input))

  /** The time of the right row minus that of the left one, for the matches in the last batch. */
  def distances: Option[TimeHistogram] = summed(_.distances)

  private def summed(of: RowObserver.Observed => TimeHistogram): Option[TimeHistogram] = {
    val all = new TimeHistogram
    exec.reports.observed.map(of).foreach(all.add)
    Option.when(all.total > 0)(all)
  }

  /** Counted since the start of the run. */
  def observed: ObservedRows = binding.observedRows(outline.ordinal)

  /** For an interval join: the distances that its condition allows, in milliseconds. */
  lazy val allowed: Option[Allowed] = outline.inputs match {
    case Seq(left, right) if OperatorKinds.named(outline.kind).exists(_.boundsDistances) =>
      def postpone(of: InputOutline, other: InputOutline): Option[Long] = for {
        key <- columns(other).headOption
        own <- columns(of).headOption
        at = of.timeColumns.indexOf(own)
        limit <- of.limits.find(limit => limit.time == at && limit.until.forall(_.key == key))
      } yield Math.floorDiv(limit.until.map(_.postpone).max, 1000L)
      Some(Allowed(postpone(right, left).map(-_), postpone(left, right)))
    case _ => None
  }

  /** The first event-time columns of both inputs, in the user's terms. */
  def pairOfColumns: Option[(String, String)] = outline.inputs match {
    case Seq(left, right) =>
      for (l <- columns(left).headOption; r <- columns(right).headOption)
        yield (outline.columns(l), outline.columns(r))
    case _ => None
  }
}

/**
 * Distances of matches that a condition allows, in milliseconds; none where it has no bound.
 */
final private[streamjoin] case class Allowed(lowest: Option[Long], highest: Option[Long]) {
  def includes(distance: Long): Boolean = lowest.forall(distance >= _) && highest.forall(distance <= _)
}
