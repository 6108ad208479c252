package org.apache.spark.sql.streamjoin.rules.query
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.trees.Origin
import org.apache.spark.sql.execution.command.{AlterViewAsCommand, CreateViewCommand}
import org.apache.spark.sql.streamjoin.analysis.CommonTables
import org.apache.spark.sql.streamjoin.base.{CallArguments, StreamJoinErrors}
import org.apache.spark.sql.streamjoin.joins.interval.{BoundsOfQuery, UnresolvedBounds}

/**
 * Replaces the query in an [[UnresolvedBounds]] with a table of its time bounds, without running
 * the query. Spark calls the rule at the end of analysis, because the bounds follow from the
 * analyzed query.
 */
final private[streamjoin] case class AnswerBoundsFunction(session: SparkSession) extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan =
    if (!plan.exists(_.isInstanceOf[UnresolvedBounds]) || AnswerBoundsFunction.isOfView(plan)) plan
    else {
      val tables = CommonTables.of(plan)
      CommonTables.withoutUnused(plan.resolveOperatorsUp {
        case asked @ UnresolvedBounds(output, query) if query.resolved =>
          if (!query.isStreaming) throw noStream(asked.origin)
          LocalRelation.fromExternalRows(output, BoundsOfQuery.rows(tables.inlined(query), session))
      })
    }

  private def noStream(at: Origin) = StreamJoinErrors.analysis(
    "STREAMJOIN_NOT_A_STREAM.BOUNDS",
    "call" -> "sj.bounds",
    "where" -> CallArguments.where(at)
  )
}

private[streamjoin] object AnswerBoundsFunction {

  /**
   * A view stores its text, and the function is evaluated when the view is read. Until then, its
   * plan must show which temporary views the text names.
   */
  private def isOfView(plan: LogicalPlan): Boolean = plan match {
    case _: CreateViewCommand | _: AlterViewAsCommand => true
    case _ => false
  }
}
