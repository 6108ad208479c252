package org.apache.spark.sql.streamjoin.operators.table

import org.apache.spark.sql.catalyst.expressions.{Attribute, Expression}
import org.apache.spark.sql.catalyst.plans.JoinType
import org.apache.spark.sql.catalyst.plans.logical.{BinaryNode, Join, JoinHint, LogicalPlan, Statistics}
import org.apache.spark.sql.streamjoin.analysis.{AwaitedKeys, NormalForm, RowConstraintsOf}
import org.apache.spark.sql.streamjoin.plans.{OperatorDescription, RowtimeNode, TableRematch}
import org.apache.spark.sql.streamjoin.watermark.{ColumnWatermark, RowConstraints}

/**
 * What an outer join with a table that buffers unmatched rows does, as data; derived once, during
 * analysis.
 *
 * @param watermarks
 *   input watermarks of the stream's event times; rows expire by the first
 * @param behind
 *   by watermark key: how far a row's time is behind the first one at most, in microseconds; none
 *   if unknown
 * @param rematch
 *   how long an unmatched row is buffered, in microseconds of event time
 * @param table
 *   name of the arrangement
 * @param keys
 *   its key columns and what they equal, as text that is stable across runs
 */
final private[streamjoin] case class RematchPlan(
    ordinal: Int,
    watermarks: IndexedSeq[ColumnWatermark],
    behind: IndexedSeq[Option[Long]],
    rematch: Long,
    table: String,
    keys: String,
    awaited: AwaitedKeys = AwaitedKeys.none
) {

  /** A buffered row is emitted up to `rematch` behind the watermark. */
  def outputWatermark(key: Int): ColumnWatermark =
    new ColumnWatermark.OfOrder(emitted, IndexedSeq.fill(emitted.size)(0L), key, ordinal)

  private lazy val emitted: IndexedSeq[ColumnWatermark] = {
    def kept(behind: Long) = ColumnWatermark.Shifted(-rematch - behind, watermarks.head)
    behind.indices.map {
      case 0 => kept(0)
      case key =>
        behind(key).fold[ColumnWatermark](ColumnWatermark.Unknown) { micros =>
          ColumnWatermark.Smallest(Seq(watermarks(key), kept(micros)))
        }
    }
  }

  def outputWatermarksForSpark: Seq[ColumnWatermark] = awaited.forSpark(Seq(0), outputWatermark)

  override def hashCode: Int = ordinal

  /** For Spark's plan strings. */
  override def toString: String = s"join ${ordinal + 1}"
}

/**
 * A [[TableRematch]], recognised and bounded.
 *
 * @param times
 *   event-time columns of the stream, by watermark key
 */
final private[streamjoin] case class RematchJoin(
    left: LogicalPlan,
    right: LogicalPlan,
    joinType: JoinType,
    condition: Option[Expression],
    times: Seq[Attribute],
    plan: RematchPlan
) extends BinaryNode
    with RowtimeNode {

  def join: Join = Join(left, right, joinType, condition, JoinHint.NONE)

  private def stream = if (left.isStreaming) left else right

  override def output: Seq[Attribute] = TableRematch.output(left, right, joinType)

  override def kind: String = RematchJoin.Kind

  override def ordinal: Int = plan.ordinal

  override def typeName: String = s"${joinType.sql.toLowerCase} table"

  override def outputWatermark(column: Attribute): Option[ColumnWatermark] = {
    val key = times.indexWhere(_.exprId == column.exprId)
    Option.when(key >= 0)(plan.outputWatermark(key))
  }

  override def outputWatermarksForSpark: Seq[ColumnWatermark] = plan.outputWatermarksForSpark

  override def evictedBy: Seq[ColumnWatermark] = plan.watermarks.take(1)

  override def received(column: Attribute): Option[(Int, ColumnWatermark)] =
    Option.when(column.exprId == times.head.exprId)(0 -> plan.watermarks.head)

  override def awaiting(lags: Map[Int, Long]): RematchJoin =
    copy(plan = plan.copy(awaited = plan.awaited.and(lags)))

  override def rowConstraints: RowConstraints = RowConstraintsOf(stream).within(outputSet)

  override def description: OperatorDescription = OperatorDescription(
    Map(
      "table" -> plan.table,
      "keys" -> plan.keys,
      "rematch_micros" -> plan.rematch.toString,
      "time" -> NormalForm.lasting(times.head.name)
    ),
    Map("columns" -> NormalForm.columns(stream.output))
  )

  /** Not derived from the input size: a small batch may emit many buffered rows. */
  override def stats: Statistics = Statistics(sizeInBytes = conf.defaultSizeInBytes)

  override protected def withNewChildrenInternal(newLeft: LogicalPlan, newRight: LogicalPlan): RematchJoin =
    copy(left = newLeft, right = newRight)
}

private[streamjoin] object RematchJoin {
  val Kind = "rematch_join"
}
