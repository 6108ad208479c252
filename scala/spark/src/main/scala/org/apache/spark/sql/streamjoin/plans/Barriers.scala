package org.apache.spark.sql.streamjoin.plans

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical._

/**
 * A node that only protects its child from Spark's rules. The strategy removes it, because later
 * optimizer batches push filters again.
 */
sealed private[streamjoin] trait Barrier extends UnaryNode {
  override def output: Seq[Attribute] = child.output
}

/**
 * Stands on an `EventTimeWatermark` and keeps filters above it until
 * [[analysis.WatermarkPlacement]] decides which of them Spark would push below: the same ones in
 * every batch, no matter which rows it has.
 *
 * @param known
 *   constraints on all rows below, inferred from the query. Spark infers them from the plan of a
 *   batch: if an input has no rows, it infers more or less than in the previous batch, and would
 *   filter the other input of the join accordingly.
 */
final private[streamjoin] case class WatermarkBarrier(child: LogicalPlan, known: Seq[Expression])
    extends Barrier {
  override protected lazy val validConstraints: ExpressionSet = ExpressionSet(known)

  override protected def withNewChildInternal(newChild: LogicalPlan): WatermarkBarrier =
    copy(child = newChild)
}

/**
 * Holds a left semi or anti join above its left input. Spark would push the join below an aggregate
 * (in batches whose right side is small), into each branch of a union, or below another join. The
 * join would then buffer different rows than in the previous batch, or become several joins.
 */
final private[streamjoin] case class PushdownBarrier(child: LogicalPlan) extends Barrier {
  override protected def withNewChildInternal(newChild: LogicalPlan): PushdownBarrier = copy(child = newChild)
}
