package org.apache.spark.sql.streamjoin.joins.temporal

import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.catalyst.plans.logical.{AsOfJoin, Join, LogicalPlan}

/** Spark's own `ASOF JOIN` in SQL, which these lines lack. */
private[streamjoin] object SparksAsOfJoin {

  /** The join as Spark's own node, for inputs that are not both streams. */
  def of(join: Join, condition: Expression): Option[LogicalPlan] = None

  /** The `MATCH_CONDITION` of Spark's own node, if it comes from SQL. */
  def condition(node: AsOfJoin): Option[Expression] = None
}
