package org.apache.spark.sql.streamjoin.joins.interval

import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.streamjoin.analysis.{EquiKeys, NormalForm, RowConstraintsOf, SpecifiedNode}
import org.apache.spark.sql.streamjoin.base.PredicateParts
import org.apache.spark.sql.streamjoin.checkpoint.{RecordedRows, RowsOfInput}
import org.apache.spark.sql.streamjoin.evolve.RecordedInterval
import org.apache.spark.sql.streamjoin.plans.{FirstPartitions, OperatorDescription}
import org.apache.spark.sql.streamjoin.watermark.{ColumnWatermark, RowConstraint, RowConstraints}

import streamjoin.core.{JoinType, Side}

/**
 * The interval join, recognized and bounded. [[IntervalJoinTask]] explains why each pair is emitted
 * exactly once.
 *
 * @param conjuncts
 *   the join condition without the equalities; the plan says how each is used
 * @param times
 *   event-time columns by watermark key; being expressions of the node, they are not pruned from
 *   the inputs and are renamed along with them
 * @param carried
 *   the stored values by which rows expire that carry them
 */
final private[streamjoin] case class StreamIntervalJoin(
    left: LogicalPlan,
    right: LogicalPlan,
    leftKeys: Seq[Expression],
    rightKeys: Seq[Expression],
    conjuncts: Seq[Expression],
    times: Seq[Attribute],
    carried: Seq[Expression],
    plan: IntervalJoinSpec
) extends BinaryNode
    with SpecifiedNode {

  def condition: Option[Expression] = PredicateParts.all(conjuncts)

  override def output: Seq[Attribute] = plan.output(left.output, right.output)

  override def kind: String = IntervalJoinKind.name

  override def typeName: String = plan.joinType.name

  override def evictedBy: Seq[ColumnWatermark] =
    plan.bounds.tightest
      .flatMap(bound => Seq(bound.out, bound.in))
      .distinct
      .filterNot(plan.bounds.carried)
      .map(plan.watermarks)

  override def partitions: Option[FirstPartitions] = tasks

  override def awaiting(lags: Map[Int, Long]): StreamIntervalJoin =
    copy(plan = plan.copy(awaited = plan.awaited.and(lags)))

  override def emitsOnEviction: Boolean = Side.both.exists(plan.joinType.pads)

  /** As with Spark's own joins: a joined row is final, a padded one may not be. */
  override def runsInUpdateMode: Boolean =
    plan.joinType == JoinType.Inner || plan.joinType == JoinType.LeftSemi

  override def undefinedWatermark(key: Int, waiting: String): AnalysisException =
    IntervalJoinErrors.undefinedWatermark(this, key, waiting)

  override def description: OperatorDescription = {
    val form = new NormalForm(left.output, right.output)
    // Unsorted: the order of the keys decides the partition of a row.
    val equality = leftKeys.zip(rightKeys).map { case (l, r) => s"${form(l)} = ${form(r)}" }
    OperatorDescription(
      Map(
        "join_type" -> plan.joinType.name,
        "equality" -> equality.mkString(", "),
        EquiKeys.ZoneProperty -> EquiKeys.zone(leftKeys ++ rightKeys),
        "condition" -> plan.condition
      ) ++ Option.when(plan.carried.nonEmpty)(
        RecordedInterval.CarriedBounds -> plan.carried.map(_.description(form(_))).mkString("; ")
      ),
      Map(
        "left_columns" -> NormalForm.columns(left.output),
        "right_columns" -> NormalForm.columns(right.output)
      ),
      record.properties ++ Side.both.map { side =>
        RecordedRows.property(Some(side.name)) -> rowsOf(side).json
      }
    )
  }

  private def input(side: Side): LogicalPlan = if (side == Side.Left) left else right

  /** With the names of the columns, which are those of the rows in state. */
  private def record: RecordedInterval = plan.record.named(
    times.indices.map(key =>
      s"${plan.sides(key).name}.${RowsOfInput.name(times(key), input(plan.sides(key)))}"
    ),
    carried.zip(plan.carried).map { case (stored, key) =>
      val value = stored match {
        case CarriedValue(value, _, _, _) => value
        case column => column
      }
      value.references.toSeq.map(RowsOfInput.name(_, input(key.side))).sorted
    }
  )

  /** The rows of a side in state. */
  private def rowsOf(side: Side): RecordedRows = {
    val keys = if (side == Side.Left) leftKeys else rightKeys
    val inBounds =
      plan.inBounds(side).map(key => if (key < times.size) times(key) else carried(key - times.size))
    val expiring = plan.bounds.bounded(side).size
    val layout = SideLayout(input(side).output, keys, inBounds, expiring)
    RowsOfInput(input(side), layout.stored, layout.layout, deciding = keys ++ inBounds ++ conjuncts)
  }

  /**
   * Pairs satisfy the bounds of the join. A padded row satisfies the constraints of its own side;
   * all times of the other side are null, and a constraint does not apply to nulls.
   */
  override lazy val rowConstraints: RowConstraints = {
    val joinType = plan.joinType
    val sides: Map[Side, (LogicalPlan, RowConstraints)] =
      Map(Side.Left -> (left -> RowConstraintsOf(left)), Side.Right -> (right -> RowConstraintsOf(right)))
    val own = (plan.found ++ plan.carried.flatMap(_.ofLifetime(times))).map { bound =>
      val source = RowConstraint.Source(Some(plan.ordinal), bound.conjunct)
      RowConstraint(bound.out.exprId, bound.in.exprId, bound.postpone, Seq(source))
    }
    val both = sides(Side.Left)._2 ++ sides(Side.Right)._2
    val joined = RowConstraints(RowConstraints.tightest(both.all ++ own), both.present)
      .closed(own.flatMap(bound => Seq(bound.out, bound.in)).toSet)
    val padded = Side.both.filter(joinType.pads)
    val result =
      if (padded.isEmpty) joined
      else {
        def alone(constraint: RowConstraint): Boolean = padded.exists { side =>
          val columns = sides(side)._1.outputSet.map(_.exprId).toSet
          columns(constraint.out) && columns(constraint.in)
        }
        val kept = joined.all.filterNot(alone) ++ padded.flatMap(sides(_)._2.all)
        // If both sides are padded, any column may be null.
        RowConstraints(
          RowConstraints.tightest(kept),
          if (padded.size == 1) sides(padded.head)._2.present else Set.empty
        )
      }
    result.within(outputSet)
  }

  override protected def withNewChildrenInternal(
      newLeft: LogicalPlan,
      newRight: LogicalPlan
  ): StreamIntervalJoin =
    copy(left = newLeft, right = newRight)
}
