package org.apache.spark.sql.streamjoin.base

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.execution.{LeafExecNode, SparkPlan}

/**
 * A physical operator of ours. It stays on the driver: its own tasks get only what they use.
 *
 * Some of Spark's operators do take their plan along, and walk it inside a task: a sort-merge join
 * calls `cleanupResources` on its children, a window asks for `output`. What such a task gets in
 * place of our operator, and of all that is below it, is a [[PlanInTask]]. So nothing that Spark
 * calls on a plan in a task can fail on ours, and what is below is not sent at all.
 */
private[streamjoin] trait OwnExec extends SparkPlan {

  /** Called by Java's serialization. */
  protected def writeReplace(): AnyRef = PlanInTask(nodeName, output)
}

/** An operator of ours as tasks of Spark's operators above it see it. It holds no resources. */
final private[streamjoin] case class PlanInTask(override val nodeName: String, output: Seq[Attribute])
    extends LeafExecNode {
  override protected def doExecute(): RDD[InternalRow] =
    throw new IllegalStateException(s"$nodeName runs on the driver, not in a task")
}
