package org.apache.spark.sql.streamjoin.rules.query
import org.apache.spark.sql.catalyst.expressions.{Alias, AttributeSet}
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.streamjoin.arrangement.storage.ChangeColumns
import org.apache.spark.sql.streamjoin.joins.delta.{ArrangedInputs, DeltaJoinOf}

/**
 * Replaces a SQL join of arrangements, and the columns that are selected from it, with a delta
 * join. Spark calls the rule while a query is analyzed, so that the query around the join can use
 * the columns that the delta join adds.
 */
private[streamjoin] object JoinArrangements extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan.resolveOperatorsUp {
    case project @ Project(list, ArrangedInputs(inputs)) if project.resolved =>
      val hidden = AttributeSet(inputs.named.flatMap { case (_, relation) =>
        relation.output.takeRight(ChangeColumns.OfSource.size)
      })
      // `*` includes them. The result has its own number of copies, and no version.
      val columns = list.filterNot(column => hidden.contains(column.toAttribute))
      val join = DeltaJoinOf(columns, inputs.conditions, inputs.named, inputs.outer)
      // A query around it may refer to these columns already.
      val known = join.output.zip(columns).map { case (output, column) =>
        Alias(output, column.name)(exprId = column.exprId)
      }
      Project(known ++ join.output.drop(columns.size), join)
  }
}
