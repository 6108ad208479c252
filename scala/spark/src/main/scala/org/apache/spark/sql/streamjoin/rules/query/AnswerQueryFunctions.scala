package org.apache.spark.sql.streamjoin.rules.query
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.command.{AlterViewAsCommand, CreateViewCommand}
import org.apache.spark.sql.streamjoin.analysis.CommonTables
import org.apache.spark.sql.streamjoin.base.{CallArguments, StreamJoinErrors}
import org.apache.spark.sql.streamjoin.plans.QueryFunction

/**
 * Replaces the query in a [[QueryFunction]] with the table that answers it, without running the
 * query. Spark calls the rule at the end of analysis, because the answer follows from the analyzed
 * query.
 */
final private[streamjoin] case class AnswerQueryFunctions(session: SparkSession) extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan =
    if (!plan.exists(_.isInstanceOf[QueryFunction]) || AnswerQueryFunctions.isOfView(plan)) plan
    else {
      val tables = CommonTables.of(plan)
      CommonTables.withoutUnused(plan.resolveOperatorsUp {
        case asked: QueryFunction if asked.child.resolved =>
          if (!asked.child.isStreaming) throw noStream(asked)
          LocalRelation.fromExternalRows(asked.output, asked.answer(tables.inlined(asked.child), session))
      })
    }

  private def noStream(asked: QueryFunction) = StreamJoinErrors.analysis(
    "STREAMJOIN_NOT_A_STREAM.BOUNDS",
    "call" -> asked.call,
    "where" -> CallArguments.where(asked.origin)
  )
}

private[streamjoin] object AnswerQueryFunctions {

  /**
   * A view stores its text, and the function is evaluated when the view is read. Until then, its
   * plan must show which temporary views the text names.
   */
  private def isOfView(plan: LogicalPlan): Boolean = plan match {
    case _: CreateViewCommand | _: AlterViewAsCommand => true
    case _ => false
  }
}
