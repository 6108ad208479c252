package org.apache.spark.sql.streamjoin.rules.query
import org.apache.spark.sql.catalyst.plans.logical.{Join, LogicalPlan}
import org.apache.spark.sql.catalyst.rules.Rule

/**
 * Rejects `DataFrame.join` of streams of arrangements. Spark calls the rule before it resolves
 * anything: arrangements in a SQL statement are still names then, so those that are streams already
 * come from DataFrames.
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
