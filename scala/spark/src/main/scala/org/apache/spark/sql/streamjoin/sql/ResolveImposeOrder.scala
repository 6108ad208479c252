package org.apache.spark.sql.streamjoin.sql
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule

/**
 * Replaces an [[ImposeOrder]] with its watermark. Spark calls the rule while a query is analyzed;
 * it acts once the input and the lag are resolved, because the watermark needs both.
 */
private[streamjoin] object ResolveImposeOrder extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan.resolveOperatorsUp {
    case order: ImposeOrder if order.childrenResolved && order.lag.resolved => order.watermark
  }
}
