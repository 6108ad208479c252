package org.apache.spark.sql.streamjoin.rules.query

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.analysis.UnresolvedTableValuedFunction
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.streamjoin.joins.interval.BoundsOfQuery

/**
 * Replaces a call of `sj_bounds` with an [[UnresolvedBounds]]. Spark calls the rule while a query
 * is analyzed, before it looks up the function.
 */
final private[streamjoin] case class ResolveBoundsFunction(session: SparkSession) extends Rule[LogicalPlan] {
  import BoundsOfQuery.Function

  override def apply(plan: LogicalPlan): LogicalPlan = plan.resolveOperatorsUp {
    case call: UnresolvedTableValuedFunction if Function.isCalledBy(call, session) =>
      call.functionArgs match {
        case Seq(query) =>
          UnresolvedBounds(Function.table(query))
        case arguments =>
          throw Function.refused(s"takes one query, and not ${arguments.size} arguments", call.origin)
      }
  }
}
