package org.apache.spark.sql.streamjoin.analysis

import org.apache.spark.sql.catalyst.plans.logical.{Join, LogicalPlan, Project}
import org.apache.spark.sql.streamjoin.base.StreamJoinErrors

/** A resolved `left.join(right, ...)`, to which a call of the API adds something. */
private[streamjoin] object PlainJoin {

  /**
   * @param call
   *   what the user wrote, for errors
   * @param change
   *   takes the join and, for a join on names, the projection that Spark puts above it
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
