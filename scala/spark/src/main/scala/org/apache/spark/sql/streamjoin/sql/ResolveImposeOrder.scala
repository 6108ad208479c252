package org.apache.spark.sql.streamjoin.sql
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule

/** The watermark in its place, once its column and its lag are known. */
private[streamjoin] object ResolveImposeOrder extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan.resolveOperatorsUp {
    case order: ImposeOrder if order.childrenResolved && order.lag.resolved => order.watermark
  }
}
