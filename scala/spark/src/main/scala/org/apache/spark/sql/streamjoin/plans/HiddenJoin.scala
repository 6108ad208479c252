package org.apache.spark.sql.streamjoin.plans

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.plans.{JoinType => SparkJoinType}

/**
 * A join of two streams that we run, out of sight of Spark's checker of unsupported operations,
 * which refuses some of them (left anti joins; outer joins whose bound it does not see). It stands
 * in the query for as long as the checker looks at it, and is a `Join` again before anything else
 * is done (`rules.RestoreJoins`).
 */
final private[streamjoin] case class HiddenJoin(
    left: LogicalPlan,
    right: LogicalPlan,
    joinType: SparkJoinType,
    condition: Option[Expression],
    hint: JoinHint
) extends BinaryNode {
  lazy val join: Join = Join(left, right, joinType, condition, hint)

  override def output: Seq[Attribute] = join.output

  override protected def withNewChildrenInternal(newLeft: LogicalPlan, newRight: LogicalPlan): HiddenJoin =
    copy(left = newLeft, right = newRight)
}
