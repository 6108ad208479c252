package org.apache.spark.sql.streamjoin.rules

import org.apache.spark.sql.catalyst.plans.logical.{Join, LogicalPlan}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.streamjoin.operators.table.TableJoin

/**
 * Turns an outer join of a stream with a table into a `TableRematch`, if the table is read with
 * `rematch`. Spark calls the rule while a query is analyzed, because the join needs an event-time
 * column that the rest of the query may not need.
 */
private[streamjoin] object RematchTables extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan =
    // A condition may be added while the rest of the query is resolved ([[JoinByDeclaredKeys]]).
    if (!plan.resolved) plan
    else
      plan.resolveOperatorsUp {
        case join: Join if TableJoin.isMine(join) => TableJoin.rematch(join).getOrElse(join)
      }
}
