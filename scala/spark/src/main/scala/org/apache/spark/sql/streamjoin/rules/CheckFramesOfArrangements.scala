package org.apache.spark.sql.streamjoin.rules
import org.apache.spark.sql.catalyst.plans.logical.{Join, LogicalPlan}
import org.apache.spark.sql.catalyst.rules.Rule

/**
 * Before anything is resolved, arrangements that a statement names are names. Those that are streams
 * already are data frames.
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
