package org.apache.spark.sql.streamjoin.joins.delta

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.streamjoin.checkpoint.Description
import org.apache.spark.sql.streamjoin.operator.ArrangedJoinKind

/** A join of arrangements. */
private[streamjoin] object DeltaKind extends ArrangedJoinKind {

  override def isMine(plan: LogicalPlan): Boolean = plan.isInstanceOf[StreamDeltaJoin]

  override def describe(join: LogicalPlan, query: LogicalPlan): Option[Description] =
    Some(DeltaDescription.of(join.asInstanceOf[StreamDeltaJoin]))

  override def plan(
      join: LogicalPlan,
      session: SparkSession,
      planLater: LogicalPlan => SparkPlan
  ): SparkPlan = new DeltaPlanner(join.asInstanceOf[StreamDeltaJoin], session).plan
}
