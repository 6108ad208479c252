package org.apache.spark.sql.streamjoin.plans

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.plans.{JoinType => SparkJoinType}

/**
 * A stream-stream join that we run, hidden from Spark's checker of unsupported operations, which
 * rejects some of them (left anti joins; outer joins whose bound it does not see). It is in the
 * query only while the checker looks at it; `rules.start.RestoreJoins` turns it back into a `Join`
 * before anything else happens.
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
