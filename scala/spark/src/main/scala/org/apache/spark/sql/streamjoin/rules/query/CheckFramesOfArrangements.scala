package org.apache.spark.sql.streamjoin.rules.query
import org.apache.spark.sql.catalyst.plans.logical.{Join, LogicalPlan}
import org.apache.spark.sql.catalyst.rules.Rule

/**
 * Rejects `DataFrame.join` of streams of arrangements. Spark calls the rule before it resolves
 * anything: at that time, arrangements in a SQL statement are still names, so those that already
 * are streams come from DataFrames.
 */
private[streamjoin] object CheckFramesOfArrangements extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = {
    plan.foreach {
      case join: Join if CheckArrangedJoins.isArranged(join) => throw CheckArrangedJoins.ofFrames
      case _ =>
    }
    plan
  }
}
