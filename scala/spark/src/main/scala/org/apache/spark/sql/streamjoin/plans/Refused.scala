package org.apache.spark.sql.streamjoin.plans

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.execution.SparkPlan

/**
 * An operator that is refused. Only a plan that is explained has one: `start()` throws the refusal.
 *
 * @param what
 *   the operator in a word
 */
final private[streamjoin] case class Refused(
    what: String,
    output: Seq[Attribute],
    children: Seq[LogicalPlan],
    refusal: AnalysisException
) extends LogicalPlan {

  // The exception has neither columns nor nodes in it, but says equals to itself alone.
  override protected def stringArgs: Iterator[Any] = Iterator(what, refusal.getCondition)

  override protected def withNewChildrenInternal(newChildren: IndexedSeq[LogicalPlan]): Refused =
    copy(children = newChildren)
}

/** An operator that is refused, for `df.explain()`: with the words that `start()` has for it. */
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
