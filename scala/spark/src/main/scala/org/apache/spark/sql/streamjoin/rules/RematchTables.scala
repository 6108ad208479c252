package org.apache.spark.sql.streamjoin.rules

import org.apache.spark.sql.catalyst.plans.logical.{Join, LogicalPlan}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.streamjoin.operators.table.TableJoin

/**
 * An outer join of a stream with a table whose rows may meet it later. It is one from the
 * beginning, as it needs a column that the rest of the query may not.
 */
private[streamjoin] object RematchTables extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan =
    // A condition may come while the rest of the query is resolved ([[JoinByDeclaredKeys]]).
    if (!plan.resolved) plan
    else
      plan.resolveOperatorsUp {
        case join: Join if TableJoin.isMine(join) => TableJoin.rematch(join).getOrElse(join)
      }
}
