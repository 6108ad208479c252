package org.apache.spark.sql.streamjoin.rules.batch

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2ScanRelation
import org.apache.spark.sql.streamjoin.arrangement.source.ArrangementScan

/**
 * Reads each arrangement at one version, however often a query names it: otherwise rows would come
 * together that never existed together. Spark calls the rule after it has created the scans, once
 * for a subquery and then for the query around it, which decides.
 */
private[streamjoin] object ReadOneVersion extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = {
    val several = plan
      .collectWithSubqueries { case Scanned(_, scan) => scan }
      .groupMap(_.arrangement)(_.newest)
      .collect { case (arrangement, newest) if newest.distinct.size > 1 => arrangement -> newest.head }
    if (several.isEmpty) plan
    else
      plan.transformDownWithSubqueries {
        case Scanned(relation, scan) if several.contains(scan.arrangement) =>
          relation.copy(scan = scan.at(several(scan.arrangement)))
      }
  }

  private object Scanned {
    def unapply(plan: LogicalPlan): Option[(DataSourceV2ScanRelation, ArrangementScan)] = plan match {
      case relation: DataSourceV2ScanRelation =>
        relation.scan match {
          case scan: ArrangementScan => Some((relation, scan))
          case _ => None
        }
      case _ => None
    }
  }
}
