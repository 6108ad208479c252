package org.apache.spark.sql.streamjoin.base

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.execution.{LeafExecNode, SparkPlan}

/**
 * A physical operator of streamjoin. It stays on the driver: its own tasks receive only what they
 * use.
 *
 * Some of Spark's operators send their plan to their tasks and traverse it there: a sort-merge join
 * calls `cleanupResources` on its children, a window reads `output`. Such a task receives a
 * [[PlanInTask]] in place of our operator and everything below it. So no method that Spark calls on
 * a plan in a task can fail on our operators, and the plan below is not sent at all.
 */
private[streamjoin] trait OwnExec extends SparkPlan {

  /** Called by Java's serialization. */
  protected def writeReplace(): AnyRef = PlanInTask(nodeName, output)
}

/**
 * The stand-in for our operator in the tasks of Spark's operators above it. It holds no resources.
 */
final private[streamjoin] case class PlanInTask(override val nodeName: String, output: Seq[Attribute])
    extends LeafExecNode {
  override protected def doExecute(): RDD[InternalRow] =
    throw new IllegalStateException(s"$nodeName runs on the driver, not in a task")
}
