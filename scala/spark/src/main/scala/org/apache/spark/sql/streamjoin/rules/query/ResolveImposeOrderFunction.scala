package org.apache.spark.sql.streamjoin.rules.query

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.analysis.UnresolvedTableValuedFunction
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.streamjoin.joins.order.ImposeOrder

/**
 * Replaces a call of `IMPOSE_ORDER` with an [[ImposeOrder]]. Spark calls the rule while a query is
 * analyzed, before it looks up the function.
 */
final private[streamjoin] case class ResolveImposeOrderFunction(session: SparkSession)
    extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan.resolveOperatorsUp {
    case call: UnresolvedTableValuedFunction if ImposeOrder.Function.isCalledBy(call, session) =>
      ImposeOrder.of(call)
  }
}
