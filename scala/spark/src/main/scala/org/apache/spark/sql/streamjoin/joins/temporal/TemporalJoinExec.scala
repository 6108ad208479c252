package org.apache.spark.sql.streamjoin.joins.temporal

import java.util.concurrent.TimeUnit

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.physical._
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.streamjoin.analysis.OperatorSpec
import org.apache.spark.sql.streamjoin.base.{StreamJoinConf, UnreadMessages}
import org.apache.spark.sql.streamjoin.batch.BatchBinding
import org.apache.spark.sql.streamjoin.checkpoint.{InputOutline, KeepingLimit, OperatorOutline}
import org.apache.spark.sql.streamjoin.observe.collect.ObservedRows
import org.apache.spark.sql.streamjoin.operator.{
  BucketWidth,
  BufferLimits,
  OperatorKind,
  StoredColumns,
  TimeRanges,
  TwoStreamsExec
}
import org.apache.spark.sql.streamjoin.time.DurationText
import org.apache.spark.sql.streamjoin.watermark.{ColumnWatermark, WatermarkValues}

import streamjoin.core.{Side, Watermark}

/**
 * Joins a stream of facts with a stream of versions by the law of [[streamjoin.core.TemporalJoin]].
 *
 * {{{
 *   facts ---- hash(key) --+                             +-- waiting facts, by time
 *                          +-- task: join the due facts -+-- versions, by time; newest of each key
 *   versions - hash(key) --+     |                       +   (one state store per task)
 *                                |
 *                                +-- range of time -- sort --> in order (added by the strategy)
 * }}}
 *
 * Both watermarks bound the state: a version is evicted once no later fact can join it. If a
 * version is valid until the next one, the newest version of each live key stays.
 *
 * Lateness depends on which rows have been emitted, see [[streamjoin.core.TemporalJoin]].
 *
 * @param times
 *   event-time columns, by watermark key
 */
final private[streamjoin] case class TemporalJoinExec(
    leftKeys: Seq[Attribute],
    rightKeys: Seq[Attribute],
    operation: Option[Attribute],
    ties: Seq[Attribute],
    condition: Option[Expression],
    unavailable: Option[String],
    primaryKey: Seq[Attribute],
    override val times: Seq[Attribute],
    plan: TemporalJoinSpec,
    override val binding: Option[BatchBinding],
    left: SparkPlan,
    right: SparkPlan
) extends TwoStreamsExec {

  override protected def kind: OperatorKind = TemporalKind

  override lazy val output: Seq[Attribute] =
    StoredColumns.of(StreamTemporalJoin.output(left.output, right.output, plan.isLeftOuter))

  override def ordinal: Int = plan.ordinal

  override def requiredChildDistribution: Seq[Distribution] =
    if (leftKeys.isEmpty) Seq(AllTuples, AllTuples)
    else Seq(leftKeys, rightKeys).map(StatefulOpClusteredDistribution(_, numPartitions))

  override def outputPartitioning: Partitioning = left.outputPartitioning

  override protected def withNewChildrenInternal(newLeft: SparkPlan, newRight: SparkPlan): TemporalJoinExec =
    copy(left = newLeft, right = newRight)

  // Watermarks and state.

  override def watermarks: IndexedSeq[ColumnWatermark] = plan.watermarks

  override protected def definition: OperatorSpec = plan

  /**
   * Facts below the first limit have been emitted; later facts cannot join versions below the
   * second.
   */
  override protected def evictionLimits(values: WatermarkValues): IndexedSeq[Long] = {
    // A changed rule does not go back: earlier facts have been emitted, earlier versions have left.
    val settled = math.max(plan.settled.value(values), values.evictedBelow(ordinal, 0))
    IndexedSeq(settled, math.max(plan.rule.needed(settled), values.evictedBelow(ordinal, 1)))
  }

  private def limitsFrom(of: BatchBinding => WatermarkValues): IndexedSeq[Long] =
    binding.fold(IndexedSeq.fill(2)(Watermark.Undefined))(batch => evictionLimits(of(batch)))

  /** Earlier batches have emitted the facts before this time. */
  private def emitted: Long = limitsFrom(_.emittedValues).head

  /**
   * Earlier facts are late. If a version is valid until the next one, and the versions before that
   * one have left, an earlier fact would find a later version.
   */
  private def lateFacts: Long = {
    val left = binding.fold(Watermark.Undefined)(_.emittedValues.evictedBelow(ordinal, 1))
    math.max(plan.rule.output(emitted), if (plan.rule.keepsNewest) left else Watermark.Undefined)
  }

  /** The time ranges by which the rows of this batch are sorted. */
  def ranges: TimeRanges = {
    val from = if (emitted != Watermark.Undefined) emitted else binding.fold(emitted)(_.waitingFrom(ordinal))
    TimeRanges(from, due, numPartitions, plan.rule.history)
  }

  /** This batch emits the facts before this time. */
  private def due: Long = limitsFrom(_.evictionValues).head

  override def waitingFrom: Option[Long] = if (due == Watermark.Undefined) lowestKept(0) else None

  // Execution.

  override protected def shown(side: Side): Seq[Attribute] =
    input(side).output.filter(StreamTemporalJoin.isShown)

  override protected def taskSpec: TemporalTaskSpec = {
    val limits = evictionLimits(binding.get.evictionValues)
    def inputSpec(side: Side, keys: Seq[Attribute], lateBelow: Long): InputSpec = {
      val rows = input(side)
      val kept =
        BigInt(plan.rule.behind).min(plan.rule.history + plan.rule.tolerance.getOrElse(0L)) + plan.rule.ahead
      InputSpec(
        rows.output,
        keys,
        times(side.index),
        lateBelow,
        BucketWidth.of(BucketWidth.delay(rows) + kept),
        plan.nullSafe
      )
    }
    TemporalTaskSpec(
      Seq(
        inputSpec(Side.Left, leftKeys, lateFacts),
        inputSpec(Side.Right, rightKeys, limitsFrom(_.emittedValues)(1))
      ),
      operation,
      ties,
      condition,
      output,
      plan.isLeftOuter,
      plan.rule,
      limits.head,
      limits(1),
      Watermark.postponed(emitted, -plan.rule.ahead),
      TimeUnit.MILLISECONDS.toMicros(conf.getConf(StreamJoinConf.TemporalDeletedKeysMaxAge)),
      BufferLimits.of(conf),
      lateRows,
      observed(Side.both.map(side => Some(side.index))),
      unavailable,
      primaryKey.map(column => right.output.indexWhere(_.exprId == column.exprId))
    )
  }

  override private[streamjoin] def warning(observed: ObservedRows): Option[String] = {
    val (rows, ignored) =
      (reports.sum(_.in(Side.Right.index)), longMetric("ignoredVersions").value)
    observed
      .addMessages(rows, ignored)
      .filter(_ => longMetric("keysWithVersion").value == 0)
      .map(count => s"${names.name(Side.Right)}: ${UnreadMessages.ofVersions(count)}")
  }

  override protected def makeOutline: OperatorOutline = {
    import KeepingLimit.Reached
    val spec = taskSpec
    // Versions leave after all rows that could join them have left.
    val behind = -plan.rule.needed(0)
    def until(side: Side) = {
      val postpone = if (side == Side.Left) 0L else behind
      KeepingLimit(0, Seq(Reached(0, postpone), Reached(1, postpone + plan.rule.ahead)))
    }
    OperatorOutline(
      ordinal,
      TemporalKind.name,
      s"${plan.joinType.replace('_', ' ')} temporal join",
      columnsInWords,
      Side.both.map { side =>
        val kept = spec.inputs(side.index)
        InputOutline(
          Some(side.name),
          names.name(side),
          DataTypeUtils.fromAttributes(StoredColumns.of(kept.output)),
          kept.output.count(StreamTemporalJoin.isShown),
          spec.layouts(side.index),
          timeColumns = Seq(side.index),
          Seq(until(side)),
          newestByKey = side == Side.Right && plan.rule.keepsNewest
        )
      }
    )
  }

  // EXPLAIN and progress.

  override protected def sides: IndexedSeq[Side] = Side.both.toIndexedSeq

  override protected def expressionsInWords: Seq[Expression] = leftKeys ++ rightKeys ++ condition

  override protected def words: Seq[String] = {
    def column(side: Side) = names.column(side, times(side.index))
    val rule = plan.rule
    Seq(
      plan.joinType,
      s"${rule.direction.toString.toLowerCase} from ${column(Side.Left)} to ${column(Side.Right)}" +
        (if (rule.allowsExact) "" else ", not at the same time") +
        rule.tolerance.fold("")(by => s", within ${DurationText.of(by)}") +
        (if (rule.history == 0) "" else s", history ${DurationText.of(rule.history)}"),
      (if (leftKeys.isEmpty) "no equality" else s"equality ${plan.equalities.mkString(", ")}") +
        plan.keyInWords.fold("")(", " + _),
      condition.map(names.text).fold("no other condition")("condition " + _),
      s"${names.name(Side.Right)} kept " +
        (if (rule.keepsNewest) "until the next of their key" else DurationText.of(rule.behind)),
      watermarksInWords.inWords,
      if (leftKeys.isEmpty) "routing without an equality: all rows to one task, with one state store"
      else s"routing by hash of the equality over $numPartitions tasks, one state store each"
    )
  }
}
