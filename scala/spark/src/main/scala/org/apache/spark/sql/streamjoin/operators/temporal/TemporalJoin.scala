package org.apache.spark.sql.streamjoin.operators.temporal

import java.util.Locale

import org.apache.spark.sql.catalyst.expressions.{Attribute, Expression}
import org.apache.spark.sql.catalyst.plans.logical.{BinaryNode, LogicalPlan, Statistics}
import org.apache.spark.sql.streamjoin.analysis.{NormalForm, RowConstraintsOf}
import org.apache.spark.sql.streamjoin.plans.{OperatorDescription, RowtimeNode}
import org.apache.spark.sql.streamjoin.watermark.{ColumnWatermark, RowConstraint, RowConstraints}

/**
 * The temporal join, recognised and bounded: each row of the left input meets the row of its key
 * that was valid at its time, or with another rule the closest.
 *
 * @param leftKeys
 *   columns of the left input. One that was made for the join is not in its output.
 * @param times
 *   the event-time columns by watermark key
 * @param ordered
 *   the rows of a batch come in the order of the left time
 */
final private[streamjoin] case class TemporalJoin(
    left: LogicalPlan,
    right: LogicalPlan,
    leftKeys: Seq[Attribute],
    rightKeys: Seq[Attribute],
    operation: Option[Attribute],
    ties: Seq[Attribute],
    condition: Option[Expression],
    override val times: Seq[Attribute],
    plan: TemporalPlan,
    ordered: Boolean
) extends BinaryNode
    with RowtimeNode {

  override def output: Seq[Attribute] = TemporalJoin.output(left.output, right.output, plan.isLeftOuter)

  override def kind: String = TemporalJoin.Kind

  override def ordinal: Int = plan.ordinal

  override def typeName: String = s"${plan.joinType} temporal"

  override def outputWatermark(column: Attribute): Option[ColumnWatermark] = {
    val key = times.indexWhere(_.exprId == column.exprId)
    Option.when(key >= 0)(plan.outputWatermark(key))
  }

  override def outputWatermarksForSpark: Seq[ColumnWatermark] = plan.outputWatermarksForSpark

  override def evictedBy: Seq[ColumnWatermark] = Seq(plan.settled)

  override def received(column: Attribute): Option[(Int, ColumnWatermark)] = {
    val key = times.take(2).indexWhere(_.exprId == column.exprId)
    Option.when(key >= 0)(key -> plan.watermarks(key))
  }

  override def awaiting(lags: Map[Int, Long]): TemporalJoin =
    copy(plan = plan.copy(awaited = plan.awaited.and(lags)))

  /** A padded row has what its left row has, and nulls, about which a constraint says nothing. */
  override lazy val rowConstraints: RowConstraints = {
    val (leftTime, rightTime) = (times.head.exprId, times(1).exprId)
    def constraint(out: Attribute, in: Attribute, postpone: Long) =
      RowConstraint(out.exprId, in.exprId, postpone, Nil)
    val own = constraint(times.head, times(1), plan.rule.ahead) +:
      plan.behind(1).toSeq.map(constraint(times(1), times.head, _))
    val both = RowConstraintsOf(left) ++ RowConstraintsOf(right)
    val met = RowConstraints(RowConstraints.tightest(both.all ++ own), both.present)
      .closed(Set(leftTime, rightTime))
    val result = if (plan.isLeftOuter) met.copy(present = RowConstraintsOf(left).present) else met
    result.within(outputSet)
  }

  override def description: OperatorDescription = OperatorDescription(
    Map(
      "join_type" -> plan.joinType,
      "direction" -> plan.rule.direction.toString.toLowerCase(Locale.ROOT),
      "allow_exact_matches" -> plan.rule.allowsExact.toString,
      "tolerance_micros" -> plan.rule.tolerance.fold("none")(_.toString),
      "history_micros" -> plan.rule.history.toString,
      "equality" -> plan.keys,
      "times" -> times.take(2).map(time => NormalForm.lasting(time.name)).mkString(", "),
      "operation" -> operation.fold("none")(column => NormalForm.lasting(column.name)),
      "condition" -> plan.condition
    ),
    Map(
      "left_columns" -> NormalForm.columns(left.output),
      "right_columns" -> NormalForm.columns(right.output)
    )
  )

  /** Not by the rows of the batch: those that waited come out too, however small the batch is. */
  override def stats: Statistics = Statistics(sizeInBytes = conf.defaultSizeInBytes)

  override protected def withNewChildrenInternal(newLeft: LogicalPlan, newRight: LogicalPlan): TemporalJoin =
    copy(left = newLeft, right = newRight)
}

private[streamjoin] object TemporalJoin {
  val Kind = "temporal_join"

  /** In the metadata of a column: it was made to be a key. */
  val MadeKey = "streamjoin.key"

  private[temporal] def output(
      left: Seq[Attribute],
      right: Seq[Attribute],
      isLeftOuter: Boolean
  ): Seq[Attribute] = {
    val kept = Seq(left, right).map(_.filterNot(_.metadata.contains(MadeKey)))
    kept.head ++ (if (isLeftOuter) kept(1).map(_.withNullability(true)) else kept(1))
  }
}
