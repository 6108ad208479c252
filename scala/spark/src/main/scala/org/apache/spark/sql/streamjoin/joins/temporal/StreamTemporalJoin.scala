package org.apache.spark.sql.streamjoin.joins.temporal

import java.util.Locale

import org.apache.spark.sql.catalyst.expressions.{Attribute, Expression}
import org.apache.spark.sql.catalyst.plans.logical.{BinaryNode, LogicalPlan}
import org.apache.spark.sql.streamjoin.analysis.{EquiKeys, NormalForm, RowConstraintsOf, SpecifiedNode}
import org.apache.spark.sql.streamjoin.checkpoint.{RecordedRows, RowsOfInput}
import org.apache.spark.sql.streamjoin.evolve.{Equalities, TimeNames}
import org.apache.spark.sql.streamjoin.plans.{OperatorDescription, RowtimeNode}
import org.apache.spark.sql.streamjoin.watermark.{ColumnWatermark, RowConstraint, RowConstraints}
import org.apache.spark.sql.types.{Metadata, MetadataBuilder}

import streamjoin.core.{Side, Watermark}

/**
 * The temporal join, recognized and bounded.
 *
 * The law ([[streamjoin.core.TemporalJoin]]): a left row joins the newest version of its key whose
 * time is not after its own, or under another rule the closest ([[streamjoin.core.AsOf]]); if that
 * is a delete, it has no match. The row waits until both watermarks have passed its time, and if
 * the rule looks ahead, until the right one has passed the end of that reach. By then every on-time
 * version that it could join has arrived, and none of them is evicted before the row is emitted. A
 * version that arrives behind the watermark never changes an emitted row: it is joined only with
 * rows that have not been emitted yet, or it is dropped. A row that arrives behind the emitted
 * ones, by no more than the rule's history, is emitted immediately.
 *
 * @param leftKeys
 *   columns of the left input; columns computed for the join are not in its output
 * @param times
 *   event-time columns, by watermark key
 * @param ordered
 *   whether a batch emits its rows in the order of the left time
 * @param unavailable
 *   stands for a value that was not sent, if there is one
 * @param primaryKey
 *   columns of the right input that are never null in a row of its table
 */
final private[streamjoin] case class StreamTemporalJoin(
    left: LogicalPlan,
    right: LogicalPlan,
    leftKeys: Seq[Attribute],
    rightKeys: Seq[Attribute],
    operation: Option[Attribute],
    ties: Seq[Attribute],
    condition: Option[Expression],
    override val times: Seq[Attribute],
    plan: TemporalJoinSpec,
    ordered: Boolean,
    unavailable: Option[String],
    primaryKey: Seq[Attribute]
) extends BinaryNode
    with RowtimeNode
    with SpecifiedNode {

  override def output: Seq[Attribute] = StreamTemporalJoin.output(left.output, right.output, plan.isLeftOuter)

  override def kind: String = TemporalKind.name

  override def typeName: String = s"${plan.joinType} temporal"

  override def evictedBy: Seq[ColumnWatermark] = Seq(plan.settled)

  override def awaiting(lags: Map[Int, Long]): StreamTemporalJoin =
    copy(plan = plan.copy(awaited = plan.awaited.and(lags)))

  /** A padded row keeps the values of its left row; a constraint does not apply to its nulls. */
  override lazy val rowConstraints: RowConstraints = {
    val (leftTime, rightTime) = (times.head.exprId, times(1).exprId)
    def constraint(out: Attribute, in: Attribute, postpone: Long) =
      RowConstraint(out.exprId, in.exprId, postpone, Nil)
    val own = constraint(times.head, times(1), plan.rule.ahead) +:
      plan.maxLagMicros(1).toSeq.map(constraint(times(1), times.head, _))
    val both = RowConstraintsOf(left) ++ RowConstraintsOf(right)
    val joined = RowConstraints(RowConstraints.tightest(both.all ++ own), both.present)
      .closed(Set(leftTime, rightTime))
    val result = if (plan.isLeftOuter) joined.copy(present = RowConstraintsOf(left).present) else joined
    result.within(outputSet)
  }

  override def description: OperatorDescription = OperatorDescription(
    Map(
      "join_type" -> plan.joinType,
      "direction" -> plan.rule.direction.toString.toLowerCase(Locale.ROOT),
      "allow_exact_matches" -> plan.rule.allowsExact.toString,
      "tolerance_micros" -> plan.rule.tolerance.fold("none")(_.toString),
      "history_micros" -> plan.rule.history.toString,
      "equality" -> plan.equalities.mkString(", "),
      EquiKeys.ZoneProperty -> plan.zone,
      "times" -> times.take(2).map(time => NormalForm.lasting(time.name)).mkString(", "),
      "operation" -> operation.fold("none")(column => NormalForm.lasting(column.name)),
      "condition" -> plan.condition
    ) ++ plan.terms.description,
    Map(
      "left_columns" -> NormalForm.columns(left.output),
      StreamTemporalJoin.RightColumns -> NormalForm.columns(right.output)
    ),
    Map(
      RecordedRows.property(Some(Side.Left.name)) -> rowsOf(left, times.head, keys = Nil).json,
      RecordedRows.property(Some(Side.Right.name)) -> rowsOf(right, times(1), rightKeys).json
    ) ++ TimeNames.properties(times.map(nameOf)) ++ Equalities.properties(plan.equalities)
  )

  private def nameOf(column: Attribute): String =
    if (left.outputSet.contains(column)) s"left.${RowsOfInput.name(column, left)}"
    else s"right.${RowsOfInput.name(column, right)}"

  private def rowsOf(input: LogicalPlan, time: Attribute, keys: Seq[Attribute]): RecordedRows = RowsOfInput(
    input,
    input.output,
    InputSpec(input.output, keys, time, late = Watermark.Undefined, bucketWidth = 1L).layout,
    deciding = leftKeys ++ rightKeys ++ times ++ operation ++ condition ++ primaryKey
  )

  override protected def withNewChildrenInternal(
      newLeft: LogicalPlan,
      newRight: LogicalPlan
  ): StreamTemporalJoin =
    copy(left = newLeft, right = newRight)
}

private[streamjoin] object StreamTemporalJoin {

  /** Property of its description: the columns of the right input. */
  val RightColumns = "right_columns"

  /** Metadata key that marks a column as computed for the join. */
  private val MadeKey = "streamjoin.key"

  /** Metadata of a column that is computed for the join; such columns come last. */
  val Made: Metadata = new MetadataBuilder().putBoolean(MadeKey, true).build()

  /** Whether a column is one of the input. */
  def isShown(column: Attribute): Boolean = !column.metadata.contains(MadeKey)

  private[temporal] def output(
      left: Seq[Attribute],
      right: Seq[Attribute],
      isLeftOuter: Boolean
  ): Seq[Attribute] = {
    val kept = Seq(left, right).map(_.filter(isShown))
    kept.head ++ (if (isLeftOuter) kept(1).map(_.withNullability(true)) else kept(1))
  }
}
