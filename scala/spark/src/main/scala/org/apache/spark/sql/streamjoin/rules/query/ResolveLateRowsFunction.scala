package org.apache.spark.sql.streamjoin.rules.query
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.analysis.UnresolvedTableValuedFunction
import org.apache.spark.sql.catalyst.expressions.Literal
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.classic.{Dataset => ClassicDataset}
import org.apache.spark.sql.streamjoin.base.{SourceNames, TextArgument}
import org.apache.spark.sql.streamjoin.observe.read.{QueriesByName, QueryLateRows}
import org.apache.spark.sql.types.BooleanType

/**
 * Replaces `sj_late_rows('query')` with the late rows of a query; as a stream, if `STREAM` stands
 * before it or `true` is its second argument, which Spark 4.1 can parse as well. Spark calls the
 * rule while a query is analyzed, before it looks up the function.
 */
final private[streamjoin] case class ResolveLateRowsFunction(session: SparkSession)
    extends Rule[LogicalPlan] {
  import QueryLateRows.Function

  override def apply(plan: LogicalPlan): LogicalPlan = plan.resolveOperatorsDown {
    case SourceNames.Unnamed(call: UnresolvedTableValuedFunction) if Function.isCalledBy(call, session) =>
      rows(call, streaming = true)
    case call: UnresolvedTableValuedFunction if Function.isCalledBy(call, session) =>
      rows(call, streaming = call.isStreaming)
  }

  private def rows(call: UnresolvedTableValuedFunction, streaming: Boolean): LogicalPlan = {
    val (name, at) = call.functionArgs.headOption match {
      case Some(argument @ TextArgument(name)) => (name, argument.origin)
      case Some(other) =>
        throw Function.refused(s"takes the id or the name of a query, and not ${other.sql}", other.origin)
      case None => throw Function.refused("takes the id or the name of a query", call.origin)
    }
    val isStream = call.functionArgs.tail match {
      case Seq() => streaming
      case Seq(Literal(value: Boolean, BooleanType)) => value
      case others =>
        val found = others.map(_.sql).mkString(", ")
        throw Function.refused(s"takes second whether it is a stream, true or false, and not $found", at)
    }
    val rows = QueryLateRows.named(session, name, isStream).getOrElse {
      val known = QueriesByName.known(session)
      throw Function.refused(s"finds no query $name that runs, or was started from here; $known", at)
    }
    rows.asInstanceOf[ClassicDataset[_]].queryExecution.analyzed
  }
}
