package org.apache.spark.sql.streamjoin.rules.query

import org.apache.spark.sql.catalyst.plans.logical.{Command, LogicalPlan}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation
import org.apache.spark.sql.streamjoin.arrangement.source.{ArrangementTable, TableOptions}
import org.apache.spark.sql.streamjoin.base.AnalyzedPlan

/**
 * Prevents Spark's cache from serving a table that a stream looks up: the cache contains the table
 * at the time of caching, before or after the query started. Spark calls the rule at the end of
 * analysis, before it searches the cache: `CacheManager` compares relations, and the relation of a
 * stream gets an option that no cached one has.
 */
private[streamjoin] object ResolveTablesUncached extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan =
    // A command such as CREATE VIEW reads nothing, and Spark has not finished analyzing it.
    if (!plan.isInstanceOf[Command] && plan.resolved && plan.isStreaming && plan.exists(isCacheable))
      AnalyzedPlan.rewrite(plan) {
        case relation: DataSourceV2Relation if isCacheable(relation) =>
          val ofStream = relation.copy(options = TableOptions.ofStream(relation.options))
          ofStream.copyTagsFrom(relation)
          ofStream
      }
    else plan

  private def isCacheable(plan: LogicalPlan): Boolean = plan match {
    case relation: DataSourceV2Relation =>
      relation.table.isInstanceOf[ArrangementTable] && TableOptions.isTable(relation.options) &&
      !TableOptions.isOfStream(relation.options)
    case _ => false
  }
}
