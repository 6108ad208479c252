package org.apache.spark.sql.streamjoin.joins.interval

import org.apache.spark.sql.streamjoin.analysis.{EquiKeys, NormalForm}
import org.apache.spark.sql.streamjoin.plans.OperatorDescription

/** The properties that must not change while the state of an interval join is in use. */
private[streamjoin] object IntervalJoinDescription {
  val JoinType = "join_type"
  val Equality = "equality"
  val Condition = "condition"
  val LeftColumns = "left_columns"
  val RightColumns = "right_columns"

  def of(join: StreamIntervalJoin): OperatorDescription = {
    val form = new NormalForm(join.left.output, join.right.output)
    // Unsorted: the order of the keys decides the partition of a row.
    val equality = join.leftKeys.zip(join.rightKeys).map { case (l, r) => s"${form(l)} = ${form(r)}" }
    OperatorDescription(
      Map(
        JoinType -> join.plan.joinType.name,
        Equality -> equality.mkString(", "),
        EquiKeys.ZoneProperty -> EquiKeys.zone(join.leftKeys ++ join.rightKeys),
        Condition -> join.plan.condition
      ),
      Map(
        LeftColumns -> NormalForm.columns(join.left.output),
        RightColumns -> NormalForm.columns(join.right.output)
      )
    )
  }
}
