package org.apache.spark.sql.streamjoin.rules.query

import org.apache.spark.sql.catalyst.plans.logical.{Join, LogicalPlan}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.streamjoin.joins.table.TableJoin

/**
 * Converts an outer join of a stream with a table to a `TableRematch` if the table is read with
 * `rematch`. Spark calls the rule while a query is analyzed, because the join needs an event-time
 * column that the rest of the query may not need.
 */
private[streamjoin] object RematchTables extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan =
    // A condition may be added while the rest of the query is resolved ([[JoinByDeclaredKeys]]).
    // A join on names is first analyzed without one, and `Dataset.join` expects a `Join`.
    if (!plan.resolved) plan
    else
      plan.resolveOperatorsUp {
        case join: Join if join.condition.isDefined && TableJoin.isMine(join) =>
          TableJoin.rematch(join).getOrElse(join)
      }
}
