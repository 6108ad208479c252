package org.apache.spark.sql.streamjoin.operators.order

import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, UnaryNode}
import org.apache.spark.sql.streamjoin.analysis.{NormalForm, RowConstraintsOf}
import org.apache.spark.sql.streamjoin.plans.{OperatorDescription, RowtimeNode}
import org.apache.spark.sql.streamjoin.watermark.{ColumnWatermark, RowConstraint, RowConstraints}

/**
 * The rows of a stream in the order of a time, recognised and bounded.
 *
 * The law: no row is emitted after one with a later time. Let W(N) be the watermark of the order in
 * batch N; it never goes back.
 *   - Batch N emits all rows with a time up to W(N), sorted, and keeps the others.
 *   - A row that arrives afterwards with a time below W(N) is late, even if its input was idle, and
 *     is dropped. One at W(N) is a tie.
 *   - So what later batches emit is never before W(N), and what batch N has emitted is never after
 *     it.
 *
 * State is bounded by how far the newest row is ahead of W: the delay of the watermark, the lag of
 * the slowest input and, above a window join, its span ([[OrderPlan]] says what holds W back
 * there).
 *
 * @param times
 *   event-time columns by watermark key; the order goes by the first
 */
final private[streamjoin] case class StreamOrder(
    child: LogicalPlan,
    override val times: Seq[Attribute],
    plan: OrderPlan
) extends UnaryNode
    with RowtimeNode {

  override def output: Seq[Attribute] = child.output

  override def kind: String = StreamOrder.Kind

  override def ordinal: Int = plan.ordinal

  override def typeName: String = "ordered"

  override def outputWatermark(column: Attribute): Option[ColumnWatermark] = {
    val key = times.indexWhere(_.exprId == column.exprId)
    if (key < 0) None else Some(plan.outputWatermark(key))
  }

  override def outputWatermarksForSpark: Seq[ColumnWatermark] =
    plan.awaited.forSpark(times.indices, plan.outputWatermark)

  override def evictedBy: Seq[ColumnWatermark] = Seq(plan.time)

  override def received(column: Attribute): Option[(Int, ColumnWatermark)] =
    Option.when(column.exprId == times.head.exprId)(0 -> plan.time)

  override def awaiting(lags: Map[Int, Long]): StreamOrder =
    copy(plan = plan.copy(awaited = plan.awaited.and(lags)))

  override def rowConstraints: RowConstraints = {
    val own = times.zip(plan.behind).collect {
      case (column, Some(behind)) if column.exprId != times.head.exprId =>
        RowConstraint(column.exprId, times.head.exprId, behind, Nil)
    }
    val below = RowConstraintsOf(child)
    RowConstraints(RowConstraints.tightest(below.all ++ own), below.present).closed(Set.empty)
  }

  override def description: OperatorDescription = OperatorDescription(
    Map("order" -> NormalForm.lasting(times.head.name)),
    Map("columns" -> NormalForm.columns(child.output))
  )

  override protected def withNewChildInternal(newChild: LogicalPlan): StreamOrder = copy(child = newChild)
}

private[streamjoin] object StreamOrder {
  val Kind = "rowtime_order"
}
