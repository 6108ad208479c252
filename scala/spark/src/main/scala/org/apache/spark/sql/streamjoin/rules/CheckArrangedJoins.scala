package org.apache.spark.sql.streamjoin.rules
import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.streamjoin.operators.delta.DeltaJoinOf

/**
 * What is left of joins of arrangements, where more than a condition and columns is asked of them.
 */
private[streamjoin] object CheckArrangedJoins extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = {
    plan match {
      // A statement has columns above its joins.
      case join: Join if isArranged(join) => throw ofFrames
      case _ =>
    }
    plan.foreach {
      case join: Join if isArranged(join) =>
        throw DeltaJoinOf.refused(
          "it is more than SELECT columns FROM inner joins, or an outer join of two",
          "Put what is above the join, such as GROUP BY, into an outer query: SELECT ... FROM (SELECT ... JOIN ...)."
        )
      case _ =>
    }
    plan
  }

  def isArranged(join: Join): Boolean = join.children.forall(ArrangedInputs.areIn)

  def ofFrames: AnalysisException = DeltaJoinOf.refused(
    "DataFrame.join of their streams is no delta join",
    "Where all of them change, write sj.delta_join({\"a\": ..., \"b\": ...}, on=...). " +
      "To look one up as it is, join the stream with sj.table(...)."
  )
}
