package org.apache.spark.sql.streamjoin.joins.table

import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.catalyst.expressions.{Attribute, Expression}
import org.apache.spark.sql.catalyst.plans.logical.{BinaryNode, Join, JoinHint, LogicalPlan}
import org.apache.spark.sql.catalyst.plans.{JoinType, LeftOuter}
import org.apache.spark.sql.streamjoin.analysis.{
  AwaitedKeys,
  EquiKeys,
  NormalForm,
  OperatorSpec,
  RowConstraintsOf,
  SpecifiedNode
}
import org.apache.spark.sql.streamjoin.plans.{
  FirstPartitions,
  OperatorDescription,
  PendingOperator,
  RowtimeNode
}
import org.apache.spark.sql.streamjoin.watermark.{ColumnWatermark, RowConstraints}

import streamjoin.core.TimeBound

/**
 * The definition of an outer join with a table that buffers unmatched rows, as data; derived once,
 * during analysis.
 *
 * @param watermarks
 *   input watermarks of the stream's event times; rows expire by the first
 * @param maxLagMicros
 *   by watermark key: the largest distance of a row's time behind the first one, in microseconds;
 *   none if unknown
 * @param rematch
 *   how long an unmatched row is buffered, in microseconds of event time
 * @param table
 *   name of the arrangement
 * @param keys
 *   its key columns and what they equal, as text that is stable across runs
 * @param zone
 *   time zone in which keys are computed ([[EquiKeys.zone]])
 * @param known
 *   constraints between the event times of each row of the stream
 */
final private[streamjoin] case class RematchJoinSpec(
    ordinal: Int,
    watermarks: IndexedSeq[ColumnWatermark],
    maxLagMicros: IndexedSeq[Option[Long]],
    rematch: Long,
    table: String,
    keys: String,
    zone: String,
    override val known: Seq[TimeBound],
    awaited: AwaitedKeys = AwaitedKeys.none
) extends OperatorSpec {

  /** As many as the arrangement has partitions. */
  override def tasks: Option[FirstPartitions] = None

  override protected def outputKeys: Seq[Int] = maxLagMicros.indices

  override protected def emittedKeys: Seq[Int] = Seq(0)

  /** A buffered row is emitted up to `rematch` behind the watermark. */
  override def outputWatermark(key: Int): ColumnWatermark =
    new ColumnWatermark.OfOrder(emitted, IndexedSeq.fill(emitted.size)(0L), key, ordinal)

  private lazy val emitted: IndexedSeq[ColumnWatermark] = {
    def kept(maxLagMicros: Long) = ColumnWatermark.Shifted(-rematch - maxLagMicros, watermarks.head)
    maxLagMicros.indices.map {
      case 0 => kept(0)
      case key =>
        maxLagMicros(key).fold[ColumnWatermark](ColumnWatermark.Unknown) { micros =>
          ColumnWatermark.Smallest(Seq(watermarks(key), kept(micros)))
        }
    }
  }
}

/**
 * A [[TableRematch]], recognized and bounded.
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
    plan: RematchJoinSpec
) extends BinaryNode
    with RowtimeNode
    with SpecifiedNode {

  def join: Join = Join(left, right, joinType, condition, JoinHint.NONE)

  private def stream = if (left.isStreaming) left else right

  override def output: Seq[Attribute] = TableRematch.output(left, right, joinType)

  override def kind: String = RematchKind.name

  override def typeName: String = s"${joinType.sql.toLowerCase} table"

  override def evictedBy: Seq[ColumnWatermark] = plan.watermarks.take(1)

  override def awaiting(lags: Map[Int, Long]): RematchJoin =
    copy(plan = plan.copy(awaited = plan.awaited.and(lags)))

  override def rowConstraints: RowConstraints = RowConstraintsOf(stream).within(outputSet)

  override def description: OperatorDescription = OperatorDescription(
    Map(
      "table" -> plan.table,
      "keys" -> plan.keys,
      EquiKeys.ZoneProperty -> plan.zone,
      "rematch_micros" -> plan.rematch.toString,
      "time" -> NormalForm.lasting(times.head.name)
    ),
    Map("columns" -> NormalForm.columns(stream.output))
  )

  override protected def withNewChildrenInternal(newLeft: LogicalPlan, newRight: LogicalPlan): RematchJoin =
    copy(left = newLeft, right = newRight)
}

/**
 * An outer join of a stream with a table, as written in a query: a stream row without a match may
 * match a row that is added to the table later. The operator that replaces it buffers such rows.
 *
 * @param time
 *   event-time column of the stream
 * @param rematch
 *   how long an unmatched row is kept, in microseconds of event time
 */
final private[streamjoin] case class TableRematch(
    left: LogicalPlan,
    right: LogicalPlan,
    joinType: JoinType,
    condition: Option[Expression],
    time: Attribute,
    rematch: Long
) extends BinaryNode
    with PendingOperator {
  override def output: Seq[Attribute] = TableRematch.output(left, right, joinType)

  def join: Join = Join(left, right, joinType, condition, JoinHint.NONE)

  override protected def withNewChildrenInternal(newLeft: LogicalPlan, newRight: LogicalPlan): TableRematch =
    copy(left = newLeft, right = newRight)

  override def disabled: AnalysisException =
    TableJoin.rejected(TableJoin.tableIn(this).get, "STREAMJOIN_TABLE.REMATCH_DISABLED")
}

private[streamjoin] object TableRematch {

  /** The columns of the table are null in an unmatched row. */
  def output(left: LogicalPlan, right: LogicalPlan, joinType: JoinType): Seq[Attribute] =
    if (joinType == LeftOuter) left.output ++ right.output.map(_.withNullability(true))
    else left.output.map(_.withNullability(true)) ++ right.output
}
