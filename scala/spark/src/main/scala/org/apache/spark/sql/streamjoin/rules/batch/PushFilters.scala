package org.apache.spark.sql.streamjoin.rules.batch

import org.apache.spark.sql.catalyst.plans.logical.{Filter, LogicalPlan, Project}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.streamjoin.base.PredicateParts
import org.apache.spark.sql.streamjoin.plans.{PendingOperator, PushdownBarrier}
import org.apache.spark.sql.streamjoin.watermark.IdleAfter

/**
 * Pushes filters through barriers that do not need to hold them. Also pushes filters and the
 * removal of unused columns below a rowtime order. In a join with versions, filters on facts are
 * pushed; a filter on versions would make a fact match another version. Spark calls the rule once
 * per batch, together with its own pushdown rules, which can then push the filters further.
 */
private[streamjoin] object PushFilters extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan.transformDown {
    case IdleAfter(_, child) => child
    case Filter(condition, PushdownBarrier(child)) if condition.deterministic =>
      PushdownBarrier(Filter(condition, child))
    case Filter(condition, pending: PendingOperator)
        if PredicateParts.conjuncts(condition).exists(pending.passes) =>
      val (below, above) = PredicateParts.conjuncts(condition).partition(pending.passes)
      val pushed = PredicateParts.all(below).fold[LogicalPlan](pending)(pending.withFilter)
      PredicateParts.all(above).fold(pushed)(Filter(_, pushed))
    case project @ Project(_, pending: PendingOperator) =>
      pending
        .without(pending.outputSet -- project.references)
        .fold(project)(pruned => project.copy(child = pruned))
  }
}
