package org.apache.spark.sql.streamjoin.plans

import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, UnaryNode}

/**
 * The columns that a SQL query selects from a join, until it is known whether the inputs are
 * arrangements. A delta join adds columns that an outer query can refer to: with `*`, as `_diff`,
 * or as the columns of a view. So this node stays unresolved until then, and the outer query is not
 * resolved too early.
 */
final private[streamjoin] case class PossibleDeltaJoin(child: LogicalPlan) extends UnaryNode {
  override def output: Seq[Attribute] = child.output

  override lazy val resolved: Boolean = false

  override protected def withNewChildInternal(newChild: LogicalPlan): PossibleDeltaJoin =
    copy(child = newChild)
}
