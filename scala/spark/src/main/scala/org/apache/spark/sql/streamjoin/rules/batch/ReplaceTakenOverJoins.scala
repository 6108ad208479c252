package org.apache.spark.sql.streamjoin.rules.batch

import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.{ColumnarRule, SparkPlan}
import org.apache.spark.sql.streamjoin.joins.interval.TakenOverJoinExec
import org.apache.spark.sql.streamjoin.operator.RemovedOperatorExec

/**
 * Puts our joins in the place of those that Spark took for its own while it planned a batch, and
 * drops what stands for an operator that was removed. The injection point is the last for physical
 * plans; it has nothing to do with columnar execution.
 */
private[streamjoin] object ReplaceTakenOverJoins extends ColumnarRule {
  override def preColumnarTransitions: Rule[SparkPlan] = Replace

  private object Replace extends Rule[SparkPlan] {
    override def apply(plan: SparkPlan): SparkPlan =
      if (!plan.exists(isReplaced)) plan
      else
        plan.transformUp {
          case join: TakenOverJoinExec => join.replacement
          case removed: RemovedOperatorExec => removed.child
        }

    private def isReplaced(plan: SparkPlan): Boolean = plan match {
      case _: TakenOverJoinExec | _: RemovedOperatorExec => true
      case _ => false
    }
  }
}
