package org.apache.spark.sql.streamjoin.rules.query
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.analysis.UnresolvedTableValuedFunction
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.streamjoin.joins.temporal.DeclaredVersions

/**
 * Replaces a call of `VERSIONS` with a [[DeclaredVersions]]. Spark calls the rule while a query is
 * analyzed, before it looks up the function.
 */
final private[streamjoin] case class ResolveVersionsFunction(session: SparkSession)
    extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan.resolveOperatorsUp {
    case call: UnresolvedTableValuedFunction if DeclaredVersions.Function.isCalledBy(call, session) =>
      DeclaredVersions.of(call)
  }
}
