package org.apache.spark.sql.streamjoin.operators

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.streamjoin.analysis.Recognizer

/**
 * A kind of operator: how it is recognised, and how it is planned. `rules.Operators` lists them.
 */
private[streamjoin] trait OperatorKind {
  def recognizer: Recognizer

  /**
   * The physical operator of a node, and what has to be above it, if the node is of this kind.
   *
   * @param binding
   *   the batch, or none where the plan is only explained
   * @param planLater
   *   plans an input
   */
  def plan(
      node: LogicalPlan,
      binding: Option[BatchBinding],
      planLater: LogicalPlan => SparkPlan
  ): Option[SparkPlan]
}
