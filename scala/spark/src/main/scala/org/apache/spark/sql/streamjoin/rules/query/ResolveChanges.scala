package org.apache.spark.sql.streamjoin.rules.query

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.streaming.StreamingRelationV2
import org.apache.spark.sql.catalyst.types.DataTypeUtils.toAttributes
import org.apache.spark.sql.connector.catalog.CatalogV2Util
import org.apache.spark.sql.streamjoin.arrangement.source.{ArrangementTable, ChangesTable}

/**
 * Gives `readStream.format("streamjoin")` the columns of the changes. Spark calls the rule while a
 * query is analyzed. The source cannot do this, because it has the same schema for batches and
 * streams.
 */
private[streamjoin] object ResolveChanges extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan.resolveOperators {
    case relation: StreamingRelationV2 =>
      relation.table match {
        case _: ChangesTable => relation
        case table: ArrangementTable =>
          val changes = table.changes
          relation.copy(
            table = changes,
            output = toAttributes(CatalogV2Util.v2ColumnsToStructType(changes.columns))
          )
        case _ => relation
      }
  }
}
