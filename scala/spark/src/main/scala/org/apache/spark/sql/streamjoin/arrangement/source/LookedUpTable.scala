package org.apache.spark.sql.streamjoin.arrangement.source

import org.apache.spark.sql.catalyst.expressions.AttributeReference
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.execution.datasources.v2.{DataSourceV2Relation, DataSourceV2ScanRelation}
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/** Matches an arrangement that a stream looks up. */
private[streamjoin] object LookedUpTable {
  def unapply(plan: LogicalPlan): Option[(TableOptions, Seq[AttributeReference])] = plan match {
    case scan: DataSourceV2ScanRelation => of(scan.relation, scan.output)
    case relation: DataSourceV2Relation => of(relation, relation.output)
    case _ => None
  }

  private def of(relation: DataSourceV2Relation, output: Seq[AttributeReference]) = relation.table match {
    case _: ArrangementTable if TableOptions.isTable(relation.options) =>
      Some((TableOptions(ArrangementOptions(new CaseInsensitiveStringMap(relation.options))), output))
    case _ => None
  }
}
