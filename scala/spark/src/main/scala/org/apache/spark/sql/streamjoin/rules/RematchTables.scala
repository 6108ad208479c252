package org.apache.spark.sql.streamjoin.rules

import org.apache.spark.sql.catalyst.plans.logical.{Join, LogicalPlan}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.streamjoin.operators.table.TableJoin

/**
 * An outer join of a stream with a table whose rows may meet it later. It is one from the beginning,
 * as it needs a column that the rest of the query may not.
 */
private[streamjoin] object RematchTables extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan.resolveOperatorsUp {
    case join: Join if join.resolved && TableJoin.isMine(join) => TableJoin.rematch(join).getOrElse(join)
  }
}
