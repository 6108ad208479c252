package org.apache.spark.sql.streamjoin.analysis

import org.apache.spark.sql.catalyst.plans.logical.{Join, LogicalPlan, Project}
import org.apache.spark.sql.streamjoin.base.StreamJoinErrors

/** A resolved `left.join(right, ...)` that an API call extends. */
private[streamjoin] object PlainJoin {

  /**
   * @param call
   *   the user's call, for errors
   * @param change
   *   receives the join and, for a join on names, the projection that Spark puts above it
   */
  def rewrite(call: String, joined: LogicalPlan)(
      change: (Join, Option[Project]) => LogicalPlan
  ): LogicalPlan = joined match {
    case names @ Project(_, join: Join) => change(join, Some(names))
    case join: Join => change(join, None)
    case _ =>
      throw StreamJoinErrors.analysis("STREAMJOIN_NOT_A_STREAM.INPUT_IS_TABLE", "call" -> call)
  }
}
