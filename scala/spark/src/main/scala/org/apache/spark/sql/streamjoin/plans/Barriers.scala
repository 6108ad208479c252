package org.apache.spark.sql.streamjoin.plans

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical._

/**
 * A node that only keeps Spark's rules from its child. Planned away by the strategy: later batches
 * of the optimizer push again.
 */
sealed private[streamjoin] trait Barrier extends UnaryNode {
  override def output: Seq[Attribute] = child.output
}

/**
 * Stands on an `EventTimeWatermark` and keeps filters above it until it is known which of them
 * Spark would push below: the same in every batch, whatever is in the batch
 * ([[analysis.WatermarkPlacement]]).
 *
 * @param known
 *   what holds for all rows below, worked out from the query. Spark works it out from the plan of a
 *   batch: where an input has no rows in it, it knows more or less than in the batch before, and
 *   would filter the other input of the join by it.
 */
final private[streamjoin] case class WatermarkBarrier(child: LogicalPlan, known: Seq[Expression])
    extends Barrier {
  override protected lazy val validConstraints: ExpressionSet = ExpressionSet(known)

  override protected def withNewChildInternal(newChild: LogicalPlan): WatermarkBarrier =
    copy(child = newChild)
}

/**
 * The left input of a left semi or anti join, which Spark would push below an aggregate (in batches
 * whose right side is small), into each branch of a union, or below another join: the join would
 * keep other rows than in the batch before, or be several.
 */
final private[streamjoin] case class JoinBarrier(child: LogicalPlan) extends Barrier {
  override protected def withNewChildInternal(newChild: LogicalPlan): JoinBarrier = copy(child = newChild)
}
