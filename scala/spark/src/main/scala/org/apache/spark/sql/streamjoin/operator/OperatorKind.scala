package org.apache.spark.sql.streamjoin.operator

import org.apache.spark.sql.streamjoin.batch.BatchBinding
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.streamjoin.analysis.Recognizer

/** A kind of operator: how to recognise it and how to plan it. `joins.OperatorKinds` lists them. */
private[streamjoin] trait OperatorKind {
  def recognizer: Recognizer

  /**
   * The physical operator of a node, with what has to run above it. None if the node is of another
   * kind.
   *
   * @param binding
   *   the batch, or none if the plan is only explained
   * @param planLater
   *   plans an input
   */
  def plan(
      node: LogicalPlan,
      binding: Option[BatchBinding],
      planLater: LogicalPlan => SparkPlan
  ): Option[SparkPlan]
}
