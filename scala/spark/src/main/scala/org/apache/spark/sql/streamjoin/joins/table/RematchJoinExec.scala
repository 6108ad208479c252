package org.apache.spark.sql.streamjoin.joins.table

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.physical._
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.catalyst.util.DateTimeUtils.microsToMillis
import org.apache.spark.sql.execution.{BinaryExecNode, SparkPlan}
import org.apache.spark.sql.streamjoin.analysis.OperatorSpec
import org.apache.spark.sql.streamjoin.arrangement.index.IndexSettings
import org.apache.spark.sql.streamjoin.arrangement.source.TableOptions
import org.apache.spark.sql.streamjoin.batch.BatchBinding
import org.apache.spark.sql.streamjoin.checkpoint.{InputOutline, KeepingLimit, OperatorOutline}
import org.apache.spark.sql.streamjoin.operator.{
  BucketWidth,
  BufferLimits,
  OperatorKind,
  StatefulNodeExec,
  StoredColumns
}
import org.apache.spark.sql.streamjoin.time.DurationText
import org.apache.spark.sql.streamjoin.watermark.{ColumnWatermark, WatermarkValues}

import streamjoin.core.Watermark

/**
 * Outer join of a stream with a table in which an unmatched row may still match later.
 *
 * {{{
 *   stream ------------ hash(key) --+
 *                                   +-- task: look up, pad, buffer --- unmatched rows,
 *   keys added to the - hash(key) --+                                  by time and key
 *   table                                                              (one state store per task)
 * }}}
 *
 * The stream's watermark bounds the state: a row leaves with its match, or once it is `rematch`
 * behind the watermark.
 *
 * @param lookUp
 *   the look-up of each stream row, as in a join that buffers nothing
 * @param keys
 *   columns of the stream, in the order of the index columns
 * @param times
 *   event-time columns of the stream, by watermark key
 * @param followsTable
 *   whether a change of the table starts a batch
 */
final private[streamjoin] case class RematchJoinExec(
    lookUp: TableLookUpExec,
    keys: Seq[Attribute],
    times: Seq[Attribute],
    plan: RematchJoinSpec,
    override val binding: Option[BatchBinding],
    table: TableOptions,
    followsTable: Boolean,
    override val output: Seq[Attribute],
    left: SparkPlan,
    right: SparkPlan
) extends BinaryExecNode
    with StatefulNodeExec {

  override protected def kind: OperatorKind = RematchKind

  override def producedAttributes: AttributeSet = outputSet

  override def ordinal: Int = plan.ordinal

  /** As many as the index has: rows are shuffled to the index partition of their key. */
  override protected def partitions(set: Int, atOnce: Int): Int = lookUp.access.meta.partitions

  override def requiredChildDistribution: Seq[Distribution] =
    Seq(keys, right.output).map(StatefulOpClusteredDistribution(_, numPartitions))

  override def outputPartitioning: Partitioning = UnknownPartitioning(numPartitions)

  override protected def withNewChildrenInternal(newLeft: SparkPlan, newRight: SparkPlan): RematchJoinExec =
    copy(left = newLeft, right = newRight)

  // Watermarks and state.

  override def watermarks: IndexedSeq[ColumnWatermark] = plan.watermarks

  override protected def definition: OperatorSpec = plan

  override protected def evictionLimits(values: WatermarkValues): IndexedSeq[Long] =
    IndexedSeq(Watermark.postponed(watermarks.head.value(values), plan.rematch))

  private lazy val changes = new TableVersions.Changes(table.options.open(), lookUp.access.high)

  /** Also runs another batch if the table has changed: buffered rows may match now. */
  override def shouldRunAnotherBatch(inputWatermarkMs: Long): Boolean =
    super.shouldRunAnotherBatch(inputWatermarkMs) || followsTable &&
      lowestKept(0).isDefined && changes.haveCome

  // Execution.

  override protected def taskSpec: RematchTaskSpec = {
    val rows = StoredColumns.of(left.output)
    RematchTaskSpec(
      rows.map(_.dataType),
      keys.map(key => rows.indexWhere(_.exprId == key.exprId)).toArray,
      rows.indexWhere(_.exprId == times.head.exprId),
      BucketWidth.of(BucketWidth.delay(left) + plan.rematch),
      evictionLimits(binding.get.evictionValues).head,
      lookUp.access.spec(rows, IndexSettings.of(conf)),
      lookUp.access.figures,
      LookUpResults(rows ++ lookUp.access.found, rows, lookUp.condition, lookUp.values, lookUp.padded),
      BufferLimits.of(conf)
    )
  }

  override protected def makeOutline: OperatorOutline = {
    val input = InputOutline(
      None,
      "rows without a match",
      DataTypeUtils.fromAttributes(StoredColumns.of(left.output)),
      left.output.size,
      taskSpec.layouts.head,
      timeColumns = Seq(0),
      Seq(KeepingLimit(0, key = 0, plan.rematch))
    )
    OperatorOutline(
      ordinal,
      RematchKind.name,
      s"outer join with the table ${plan.table}",
      Seq(times.head.name),
      Seq(input)
    )
  }

  // EXPLAIN and progress.

  override protected def progressFigures: Seq[(String, Long)] =
    Some(eviction.head).filter(_ != Watermark.Undefined).toSeq.map { micros =>
      s"watermarkMs.${times.head.name}" -> microsToMillis(micros)
    } :+ ("tableVersion" -> lookUp.access.at.version)

  override protected def words: Seq[String] = Seq(
    lookUp.words,
    s"keeps rows without a match by ${times.head.name} for ${DurationText.of(plan.rematch)}",
    s"$numPartitions tasks, one state store each"
  )
}
