package org.apache.spark.sql.streamjoin.plans

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.plans.{JoinType => SparkJoinType}

/**
 * A stream-stream join of streamjoin, hidden from Spark's checker of unsupported operations, which
 * rejects some of these joins (left anti joins; outer joins whose bound it does not see). It is in
 * the query only while the checker runs; `rules.start.RestoreJoins` converts it back to a `Join`
 * right afterwards.
 */
final private[streamjoin] case class UncheckedStreamJoin(
    left: LogicalPlan,
    right: LogicalPlan,
    joinType: SparkJoinType,
    condition: Option[Expression],
    hint: JoinHint
) extends BinaryNode {
  lazy val join: Join = Join(left, right, joinType, condition, hint)

  override def output: Seq[Attribute] = join.output

  override protected def withNewChildrenInternal(
      newLeft: LogicalPlan,
      newRight: LogicalPlan
  ): UncheckedStreamJoin =
    copy(left = newLeft, right = newRight)
}
