package org.apache.spark.sql.streamjoin.joins.order

import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, UnaryNode}
import org.apache.spark.sql.streamjoin.analysis.{NormalForm, RowConstraintsOf, SpecifiedNode}
import org.apache.spark.sql.streamjoin.checkpoint.{RecordedRows, RowsOfInput}
import org.apache.spark.sql.streamjoin.evolve.TimeNames
import org.apache.spark.sql.streamjoin.plans.{OperatorDescription, RowtimeNode}
import org.apache.spark.sql.streamjoin.watermark.{ColumnWatermark, RowConstraint, RowConstraints}

import streamjoin.core.JoinWindows

/**
 * The rows of a stream in the order of a time, recognized and bounded.
 *
 * The law: no row is emitted after one with a later time. Let W(N) be the watermark of the order in
 * batch N; it never decreases.
 *   - Batch N emits all rows with a time up to W(N) in order, and keeps the others.
 *   - A row that arrives afterwards with a time below W(N) is late, even if its input was idle, and
 *     is dropped. A row at W(N) is a tie.
 *   - So later batches emit no row before W(N), and batch N has emitted no row after it.
 *
 * State is bounded by how far the newest row is ahead of W: the delay of the watermark, the lag of
 * the slowest input and, above a window join, its span ([[OrderSpec]] says what holds W back
 * there).
 *
 * @param times
 *   event-time columns by watermark key; the first one defines the order
 * @param windows
 *   the windows of the window join below, if there is one
 */
final private[streamjoin] case class StreamOrder(
    child: LogicalPlan,
    override val times: Seq[Attribute],
    windows: Option[JoinWindows],
    plan: OrderSpec
) extends UnaryNode
    with RowtimeNode
    with SpecifiedNode {

  override def output: Seq[Attribute] = child.output

  override def kind: String = OrderKind.name

  override def typeName: String = "ordered"

  override def evictedBy: Seq[ColumnWatermark] = Seq(plan.time)

  override def awaiting(lags: Map[Int, Long]): StreamOrder =
    copy(plan = plan.copy(awaited = plan.awaited.and(lags)))

  override def rowConstraints: RowConstraints = {
    val own = times.zip(plan.maxLagMicros).collect {
      case (column, Some(maxLagMicros)) if column.exprId != times.head.exprId =>
        RowConstraint(column.exprId, times.head.exprId, maxLagMicros, Nil)
    }
    val below = RowConstraintsOf(child)
    RowConstraints(RowConstraints.tightest(below.all ++ own), below.present).closed(Set.empty)
  }

  override def description: OperatorDescription = OperatorDescription(
    Map(
      "order" -> NormalForm.lasting(times.head.name),
      // They decide the rowtime; the bounds of the join are the same for several windows.
      "window" -> windows.fold("none")(_.toString)
    ),
    Map("columns" -> NormalForm.columns(child.output)),
    Map(RecordedRows.property(None) -> {
      val layout = new OrderLayout(child.output, times.head, bucketWidth = 1L).rows
      RowsOfInput(child, child.output, layout, deciding = times).json
    }) ++ TimeNames.properties(times.map(RowsOfInput.name(_, child)))
  )

  override protected def withNewChildInternal(newChild: LogicalPlan): StreamOrder = copy(child = newChild)
}
