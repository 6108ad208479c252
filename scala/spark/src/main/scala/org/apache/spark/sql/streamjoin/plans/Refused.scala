package org.apache.spark.sql.streamjoin.plans

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.execution.SparkPlan

/**
 * A rejected operator. It occurs only in a plan that is explained: `start()` throws the error.
 *
 * @param what
 *   short name of the operator
 */
final private[streamjoin] case class Refused(
    what: String,
    output: Seq[Attribute],
    children: Seq[LogicalPlan],
    refusal: AnalysisException
) extends LogicalPlan {

  // The exception has neither columns nor nodes in it, but equals only itself.
  override protected def stringArgs: Iterator[Any] = Iterator(what, refusal.getCondition)

  override protected def withNewChildrenInternal(newChildren: IndexedSeq[LogicalPlan]): Refused =
    copy(children = newChildren)
}

/** A rejected operator in `df.explain()`, with the message that `start()` throws. */
final private[streamjoin] case class RefusedExec(
    what: String,
    output: Seq[Attribute],
    children: Seq[SparkPlan],
    @transient refusal: AnalysisException
) extends SparkPlan {
  override def nodeName: String = what

  override def simpleString(maxFields: Int): String = s"$nodeName refused: ${refusal.getMessage}"

  override protected def doExecute(): RDD[InternalRow] = throw refusal

  override protected def withNewChildrenInternal(newChildren: IndexedSeq[SparkPlan]): RefusedExec =
    copy(children = newChildren)
}
