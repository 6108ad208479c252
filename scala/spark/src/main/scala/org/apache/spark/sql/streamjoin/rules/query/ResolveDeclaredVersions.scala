package org.apache.spark.sql.streamjoin.rules.query
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.streamjoin.analysis.CommonTables
import org.apache.spark.sql.streamjoin.joins.temporal.DeclaredVersions

/**
 * Replaces a [[DeclaredVersions]] with its rows. Spark calls the rule while a query is analyzed; it
 * acts once the changes are resolved.
 */
final private[streamjoin] case class ResolveDeclaredVersions(session: SparkSession)
    extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan =
    if (!plan.exists(_.isInstanceOf[DeclaredVersions])) plan
    else {
      val tables = CommonTables.of(plan)
      val replaced = plan.resolveOperatorsUp {
        case versions: DeclaredVersions if versions.child.resolved =>
          versions.rows(session, tables.inlined(versions.child))
      }
      if (tables.isEmpty) replaced else CommonTables.withoutUnused(replaced)
    }
}
