package org.apache.spark.sql.streamjoin.rules
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.streamjoin.operators.delta.DeltaJoinOf

/**
 * What is left of joins of arrangements, where more than a condition and columns is asked of them.
 */
private[streamjoin] object CheckArrangedJoins extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = {
    plan.foreach {
      case join: Join if join.children.forall(ArrangedInputs.areIn) =>
        throw DeltaJoinOf.refused(
          "it is more than SELECT columns FROM inner joins, or an outer join of two",
          "Put what is above the join, such as GROUP BY, into an outer query: SELECT ... FROM (SELECT ... JOIN ...)."
        )
      case _ =>
    }
    plan
  }
}
