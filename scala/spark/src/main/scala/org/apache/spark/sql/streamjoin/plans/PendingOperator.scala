package org.apache.spark.sql.streamjoin.plans

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeSet, Expression}
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.execution.SparkPlan

/**
 * An operator in a query as written that Spark does not have. Once per batch, after the optimizer
 * has run, a [[StatefulNode]] replaces it.
 */
private[streamjoin] trait PendingOperator extends LogicalPlan {

  /** The error if `spark.streamjoin.enabled` is false. */
  def disabled: AnalysisException

  /** Whether a filter above it that passes this test may move below it ([[withFilter]]). */
  def passes(conjunct: Expression): Boolean = false

  /** The operator with a filter on its input; called only with a filter that [[passes]]. */
  def withFilter(condition: Expression): LogicalPlan =
    throw new UnsupportedOperationException(s"no filter passes $nodeName")

  /** The operator without some columns of its input; none if it has to keep them. */
  def without(columns: AttributeSet): Option[LogicalPlan] = None
}

/**
 * A rejected operator. It occurs only in explained plans, because `start()` throws the error.
 *
 * @param what
 *   short name of the operator
 */
final private[streamjoin] case class RejectedOperator(
    what: String,
    output: Seq[Attribute],
    children: Seq[LogicalPlan],
    rejection: AnalysisException
) extends LogicalPlan {

  // The exception contains neither columns nor nodes, but equals only itself.
  override protected def stringArgs: Iterator[Any] = Iterator(what, rejection.getCondition)

  override protected def withNewChildrenInternal(newChildren: IndexedSeq[LogicalPlan]): RejectedOperator =
    copy(children = newChildren)
}

/** A rejected operator in `df.explain()`, with the message that `start()` throws. */
final private[streamjoin] case class RejectedOperatorExec(
    what: String,
    output: Seq[Attribute],
    children: Seq[SparkPlan],
    @transient rejection: AnalysisException
) extends SparkPlan {
  override def nodeName: String = what

  override def simpleString(maxFields: Int): String = s"$nodeName rejected: ${rejection.getMessage}"

  override protected def doExecute(): RDD[InternalRow] = throw rejection

  override protected def withNewChildrenInternal(newChildren: IndexedSeq[SparkPlan]): RejectedOperatorExec =
    copy(children = newChildren)
}
