package org.apache.spark.sql.streamjoin.operator

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.streamjoin.checkpoint.Description

/**
 * A kind of join with arrangements that keeps no state of its own. Its object is in the folder of
 * the join, and `registry.ArrangedJoins` lists it.
 */
private[streamjoin] trait ArrangedJoinKind {

  /** Whether an analyzed plan is such a join. */
  def isMine(plan: LogicalPlan): Boolean

  /**
   * The properties that must not change while a checkpoint is in use. None if the join turns out to
   * be invalid, which raises an error when it is planned.
   *
   * @param join
   *   the join as written
   * @param query
   *   the query that contains it
   */
  def describe(join: LogicalPlan, query: LogicalPlan): Option[Description]

  /** @param planLater plans an input */
  def plan(join: LogicalPlan, session: SparkSession, planLater: LogicalPlan => SparkPlan): SparkPlan
}
