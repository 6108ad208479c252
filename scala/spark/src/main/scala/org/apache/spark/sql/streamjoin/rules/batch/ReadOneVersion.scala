package org.apache.spark.sql.streamjoin.rules.batch

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.datasources.v2.{DataSourceV2Relation, DataSourceV2ScanRelation}
import org.apache.spark.sql.streamjoin.arrangement.source.{
  ArrangementScan,
  ArrangementTable,
  ChangesTable,
  NewestVersion
}

/**
 * Reads each arrangement at one version, no matter how often a query names it: otherwise a query
 * could combine rows that never existed together. Spark calls the rule once for each subquery, and
 * then for the outer query, before its relations become scans; those of its subqueries already are
 * scans.
 */
private[streamjoin] object ReadOneVersion extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = {
    val several = plan
      .collectWithSubqueries { case Read(root, newest) => root -> newest }
      .groupMap(_._1)(_._2)
      .collect {
        case (root, reads) if reads.size > 1 && (reads.distinct.size > 1 || reads.head.isEmpty) =>
          root -> reads.flatten.headOption.getOrElse(new NewestVersion)
      }
    if (several.isEmpty) plan
    else
      plan.transformDownWithSubqueries { case read @ Read(root, _) =>
        several.get(root).fold(read)(at(read, _))
      }
  }

  private def at(read: LogicalPlan, newest: NewestVersion): LogicalPlan = read match {
    case relation: DataSourceV2Relation =>
      relation.copy(table = relation.table.asInstanceOf[ArrangementTable].at(newest))
    case relation: DataSourceV2ScanRelation =>
      relation.copy(scan = relation.scan.asInstanceOf[ArrangementScan].at(newest))
    case other => other
  }

  /**
   * The folder of an arrangement that is read, and the option that decides its version, if there is
   * one.
   */
  private object Read {
    def unapply(plan: LogicalPlan): Option[(String, Option[NewestVersion])] = plan match {
      case relation: DataSourceV2Relation =>
        relation.table match {
          case _: ChangesTable => None
          case table: ArrangementTable => Some((table.options.root.toString, table.newest))
          case _ => None
        }
      case relation: DataSourceV2ScanRelation =>
        relation.scan match {
          case scan: ArrangementScan => Some((scan.arrangement.root, Some(scan.newest)))
          case _ => None
        }
      case _ => None
    }
  }
}
