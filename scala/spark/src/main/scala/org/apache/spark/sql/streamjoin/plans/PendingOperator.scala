package org.apache.spark.sql.streamjoin.plans

import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.catalyst.expressions.{AttributeSet, Expression}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan

/**
 * An operator as a query is written, for which Spark has none. Which [[StatefulNode]] replaces it
 * is decided once per batch, when the optimizer is done.
 */
private[streamjoin] trait PendingOperator extends LogicalPlan {

  /** The error if `spark.streamjoin.enabled` is false. */
  def disabled: AnalysisException

  /** Whether a filter above it that passes this test may move below it ([[withFilter]]). */
  def passes(conjunct: Expression): Boolean = false

  /** The same operator with a filter on its input; called with what [[passes]]. */
  def withFilter(condition: Expression): LogicalPlan =
    throw new UnsupportedOperationException(s"no filter passes $nodeName")

  /** The same operator without some columns of its input; none if it has to keep them. */
  def without(columns: AttributeSet): Option[LogicalPlan] = None
}
