package org.apache.spark.sql.streamjoin.rules.query
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.streamjoin.analysis.CommonTables
import org.apache.spark.sql.streamjoin.base.StreamJoinErrors
import org.apache.spark.sql.streamjoin.joins.delta.{ArrangedInputs, DeltaJoinBuilder}
import org.apache.spark.sql.streamjoin.plans.PossibleDeltaJoin

/**
 * Replaces a SQL join of arrangements, and the columns that are selected from it, with a delta
 * join. Spark calls the rule while a query is analyzed, so that the outer query can use the columns
 * that the delta join adds; [[PossibleDeltaJoin]] makes the outer query wait until then.
 */
private[streamjoin] object JoinArrangements extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = {
    lazy val tables = CommonTables.of(plan)
    var inlined = false
    val joined = plan.resolveOperatorsUp {
      case PossibleDeltaJoin(query @ Project(list, source)) if query.resolved =>
        ArrangedInputs.of(tables.inlined(source)).fold[LogicalPlan](query) { inputs =>
          inlined ||= !tables.isEmpty
          joinOf(list, inputs)
        }
      case PossibleDeltaJoin(query) if query.resolved => query
    }
    if (inlined) CommonTables.withoutUnused(joined) else joined
  }

  private def joinOf(list: Seq[NamedExpression], inputs: ArrangedInputs): LogicalPlan = {
    // `*` includes them. The result has its own number of copies, and no version.
    val columns = list.filterNot(inputs.isHidden)
    columns.find(_.references.exists(inputs.computedBelow.contains)).foreach { column =>
      throw StreamJoinErrors.analysis("STREAMJOIN_DELTA.COMPUTED_BELOW_OUTER", "column" -> column.name)
    }
    val join = DeltaJoinBuilder(
      columns.map {
        case alias: Alias =>
          alias.copy(child = inputs.inStreams(alias.child))(
            alias.exprId,
            alias.qualifier,
            alias.explicitMetadata,
            alias.nonInheritableMetadataKeys
          )
        case column => Alias(inputs.inStreams(column), column.name)()
      },
      inputs.conditions,
      inputs.named,
      inputs.outer,
      inputs.filters
    )
    // An outer query may already refer to these columns.
    val known = join.output.zip(columns).map { case (output, column) =>
      Alias(output, column.name)(exprId = column.exprId)
    }
    Project(known ++ join.output.drop(columns.size), join)
  }
}
