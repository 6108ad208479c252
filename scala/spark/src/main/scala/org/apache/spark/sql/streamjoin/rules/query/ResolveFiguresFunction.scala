package org.apache.spark.sql.streamjoin.rules.query

import org.apache.spark.sql.catalyst.analysis.UnresolvedTableValuedFunction
import org.apache.spark.sql.catalyst.plans.logical.{LocalRelation, LogicalPlan}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.streamjoin.base.TextArgument
import org.apache.spark.sql.streamjoin.observe.publish.RecentFigures
import org.apache.spark.sql.streamjoin.observe.read.QueriesByName
import org.apache.spark.sql.{Row, SparkSession}

/**
 * Replaces `sj_figures('query')` with a table of the figures of its last batches as JSON, for the
 * Python package. Spark calls the rule while a query is analyzed, before it looks up the function.
 */
final private[streamjoin] case class ResolveFiguresFunction(session: SparkSession) extends Rule[LogicalPlan] {
  import RecentFigures.{Function, Schema}

  override def apply(plan: LogicalPlan): LogicalPlan = plan.resolveOperatorsDown {
    case call: UnresolvedTableValuedFunction if Function.isCalledBy(call, session) =>
      val name = call.functionArgs match {
        case Seq(TextArgument(name)) => name
        case _ => throw Function.refused("takes the id or the name of a query", call.origin)
      }
      val lines = RecentFigures.of(session, name).getOrElse {
        if (QueriesByName.running(session, name).isDefined) Nil
        else
          throw Function.refused(
            s"finds no query $name in this driver, running or stopped; ${QueriesByName.known(session)}",
            call.origin
          )
      }
      LocalRelation.fromExternalRows(DataTypeUtils.toAttributes(Schema), lines.map(Row(_)))
  }
}
