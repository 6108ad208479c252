package org.apache.spark.sql.streamjoin.joins.order

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.physical._
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.catalyst.util.DateTimeUtils.microsToMillis
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}
import org.apache.spark.sql.streamjoin.analysis.OperatorSpec
import org.apache.spark.sql.streamjoin.base.StreamJoinConf
import org.apache.spark.sql.streamjoin.batch.BatchBinding
import org.apache.spark.sql.streamjoin.checkpoint.{InputOutline, KeepingLimit, OperatorOutline}
import org.apache.spark.sql.streamjoin.laterows.LateRows
import org.apache.spark.sql.streamjoin.operator.{
  BucketWidth,
  BufferLimits,
  OperatorKind,
  StatefulNodeExec,
  StoredColumns,
  TimeRanges,
  WholeRow
}
import org.apache.spark.sql.streamjoin.watermark.{ColumnWatermark, WatermarkValues}

import streamjoin.core.{Side, Watermark}

/**
 * Keeps each row until no row with an earlier time can arrive, then emits it ([[StreamOrder]]).
 *
 * {{{
 *   rows -- task: emit what is due, keep the rest --- range of time -- sort --> in order
 *                    |                                (the strategy puts these two above)
 *               state store
 *              (one per task)
 * }}}
 *
 * A row stays in the task that it arrives in, because tasks treat all rows alike. All tasks emit up
 * to the same watermark, so the next batch has no earlier rows. Within a batch, each sort task has
 * a range of the time between the watermarks of the batch before and of this one ([[TimeRanges]]).
 */
final private[streamjoin] case class StreamOrderExec(
    times: Seq[Attribute],
    plan: OrderSpec,
    override val binding: Option[BatchBinding],
    child: SparkPlan
) extends UnaryExecNode
    with StatefulNodeExec {

  override protected def kind: OperatorKind = OrderKind

  override lazy val output: Seq[Attribute] = StoredColumns.of(child.output)

  override def ordinal: Int = plan.ordinal

  override def requiredChildDistribution: Seq[Distribution] =
    if (plan.below.isDefined) Seq(UnspecifiedDistribution)
    else Seq(StatefulOpClusteredDistribution(WholeRow.hashed(child.output), numPartitions))

  /**
   * As many as the operator below has, in whose partitions the rows stay. A new operator would have
   * another number if the setting or the cluster has changed since that one was new.
   */
  override protected def partitions(set: Int, atOnce: Int): Int = (for {
    batch <- binding
    below <- plan.below
  } yield batch.states.state(below.ordinal, number(below.tasks.number)).partitions)
    .getOrElse(super.partitions(set, atOnce))

  override def outputPartitioning: Partitioning = UnknownPartitioning(numPartitions)

  override protected def withNewChildInternal(newChild: SparkPlan): StreamOrderExec = copy(child = newChild)

  // Watermarks and state.

  override def watermarks: IndexedSeq[ColumnWatermark] = plan.watermarks

  override protected def definition: OperatorSpec = plan

  /**
   * A lower bound, in microseconds, on the times that arrive after a batch with these watermarks.
   */
  private def reached(values: WatermarkValues): Long = plan.outputWatermark(0).value(values)

  /** A row at the watermark is due: no earlier one can arrive. */
  override protected def evictionLimits(values: WatermarkValues): IndexedSeq[Long] =
    IndexedSeq(reached(values) match {
      case Watermark.Undefined => Watermark.Undefined
      // The last time of all has none after it.
      case watermark => Watermark.postponed(watermark, -1)
    })

  override def earliestToCome(next: => WatermarkValues, late: => WatermarkValues): Option[Long] =
    for {
      center <- plan.center
      join <- child.collectFirst { case exec: StatefulNodeExec if exec.ordinal == center.join => exec }
      if join.hasReported
      earliest <- center.earliest(next, late, join.lowestKept(center.key))
    } yield earliest

  /**
   * Also runs another batch if a batch without rows would show that no earlier row can arrive: rows
   * of the batch after it are judged by newer watermarks.
   */
  override def shouldRunAnotherBatch(inputWatermarkMs: Long): Boolean =
    super.shouldRunAnotherBatch(inputWatermarkMs) || (for {
      batch <- binding
      earliest <- earliestToCome(batch.nextValues, batch.next.forLateness(batch.sparkNext))
      lowest <- lowestKept(0)
    } yield lowest <= earliest).getOrElse(false)

  /**
   * Previous batches have emitted rows up to this time. A row with an earlier time is late, even if
   * its input was idle and has an older watermark of its own.
   */
  private def emitted: Long = binding.fold(Watermark.Undefined)(batch => reached(batch.emittedValues))

  /** This batch emits rows up to this time. */
  private def due: Long = binding.fold(Watermark.Undefined)(batch => reached(batch.evictionValues))

  /** The time ranges by which the rows of this batch are sorted. */
  def ranges: TimeRanges = {
    val from = if (emitted != Watermark.Undefined) emitted else binding.fold(emitted)(_.waitingFrom(ordinal))
    TimeRanges(from, due, numPartitions)
  }

  override def waitingFrom: Option[Long] = if (due == Watermark.Undefined) lowestKept(0) else None

  // Execution.

  override protected def taskSpec: OrderTaskSpec = OrderTaskSpec(
    new OrderLayout(output, times.head, BucketWidth.of(BucketWidth.delay(child) + plan.span)),
    emitted,
    evictionLimits(binding.get.evictionValues).head,
    BufferLimits.of(conf),
    lateRows,
    observed(Seq(Some(0)))
  )

  override protected def makeOutline: OperatorOutline = {
    val layout = new OrderLayout(output, times.head, bucketWidth = 1L)
    val time = times.head.name
    val input = InputOutline(
      None,
      "rows in order",
      DataTypeUtils.fromAttributes(output),
      output.size,
      layout.rows,
      timeColumns = Seq(0),
      // A row at the watermark is due.
      Seq(KeepingLimit(0, key = 0, postpone = -1))
    )
    OperatorOutline(ordinal, OrderKind.name, s"order by $time", Seq(time), Seq(input))
  }

  private def lateRows: Option[LateRows.Spec] =
    binding.filter(_ => StreamJoinConf.keepsLateRows).map { batch =>
      val input = LateRows.Input(times.head.name, times.take(1), child.output)
      LateRows.Spec(
        batch.lateRows.toString,
        batch.batch,
        Some(ordinal + 1),
        Map(Side.Left -> input),
        numPartitions
      )
    }

  // EXPLAIN and progress.

  /** The watermark of the order: rows up to it have been emitted. */
  override protected def progressFigures: Seq[(String, Long)] =
    Some(due).filter(_ != Watermark.Undefined).toSeq.map { micros =>
      s"watermarkMs.${times.head.name}" -> microsToMillis(micros)
    }

  override protected def words: Seq[String] =
    Seq(s"by ${times.head.name}", s"$numPartitions tasks, one state store each")
}
