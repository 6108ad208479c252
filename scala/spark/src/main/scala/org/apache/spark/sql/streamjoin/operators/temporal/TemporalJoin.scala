package org.apache.spark.sql.streamjoin.operators.temporal

import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.catalyst.expressions.{Attribute, Expression}
import org.apache.spark.sql.catalyst.plans.logical.{BinaryNode, LogicalPlan}
import org.apache.spark.sql.streamjoin.analysis.{NormalForm, RowConstraintsOf}
import org.apache.spark.sql.streamjoin.base.StreamJoinErrors
import org.apache.spark.sql.streamjoin.plans.{FirstPartitions, OperatorDescription, StatefulNode}
import org.apache.spark.sql.streamjoin.watermark.{ColumnWatermark, RowConstraints}

/**
 * The temporal join, recognised and bounded: each row of the left input meets the row of its key
 * that was valid at its time.
 *
 * @param times
 *   the event-time column of each input
 */
final private[streamjoin] case class TemporalJoin(
    left: LogicalPlan,
    right: LogicalPlan,
    leftKeys: Seq[Expression],
    rightKeys: Seq[Expression],
    isDelete: Option[Expression],
    condition: Option[Expression],
    times: Seq[Attribute],
    plan: TemporalPlan
) extends BinaryNode
    with StatefulNode {

  override def output: Seq[Attribute] =
    left.output ++ (if (plan.isLeftOuter) right.output.map(_.withNullability(true)) else right.output)

  override def kind: String = TemporalJoin.Kind

  override def ordinal: Int = plan.ordinal

  override def typeName: String = if (plan.isLeftOuter) "left outer temporal" else "temporal"

  override def outputWatermark(column: Attribute): Option[ColumnWatermark] =
    received(column).map { case (key, _) => plan.outputWatermark(key) }

  override def outputWatermarksForSpark: Seq[ColumnWatermark] =
    plan.awaited.forSpark(Seq(0), plan.outputWatermark)

  override def evictedBy: Seq[ColumnWatermark] = Seq(plan.settled)

  override def received(column: Attribute): Option[(Int, ColumnWatermark)] = {
    val key = times.indexWhere(_.exprId == column.exprId)
    Option.when(key >= 0)(key -> plan.watermarks(key))
  }

  /** The part of time that a task has is another one in every batch. */
  override def partitions: Option[FirstPartitions] = None

  override def awaiting(lags: Map[Int, Long]): TemporalJoin =
    copy(plan = plan.copy(awaited = plan.awaited.and(lags)))

  override def emitsOnEviction: Boolean = true

  /** Spark sorts no stream in update mode, for a row may come again there. */
  override def runsInUpdateMode: Boolean = false

  override def undefinedWatermark(key: Int, waiting: String): AnalysisException =
    StreamJoinErrors.analysis(
      "STREAMJOIN_ORDER_WATERMARK",
      "waits" -> waiting,
      "column" -> times(key).name,
      "time" -> times.head.name
    )

  /** Each row has those of its left row; without a match, nulls in all columns of the other. */
  override def rowConstraints: RowConstraints = RowConstraintsOf(left)

  override def description: OperatorDescription = {
    val form = new NormalForm(left.output, right.output)
    def text(columns: Seq[Attribute]) =
      columns.map(c => s"${NormalForm.lasting(c.name)} ${c.dataType.catalogString}").mkString(", ")
    OperatorDescription(
      Map(
        "join_type" -> (if (plan.isLeftOuter) "left_outer" else "inner"),
        "rule" -> plan.rule.words,
        "keys" -> leftKeys.zip(rightKeys).map { case (a, b) => s"${form(a)} = ${form(b)}" }.mkString(", "),
        "times" -> times.map(time => NormalForm.lasting(time.name)).mkString(", "),
        "delete" -> isDelete.fold("false")(form(_)),
        "condition" -> condition.fold("true")(form(_))
      ),
      Map("left" -> text(left.output), "right" -> text(right.output))
    )
  }

  override protected def withNewChildrenInternal(newLeft: LogicalPlan, newRight: LogicalPlan): TemporalJoin =
    copy(left = newLeft, right = newRight)
}

private[streamjoin] object TemporalJoin {
  val Kind = "temporal_join"
}
