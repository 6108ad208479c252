package org.apache.spark.sql.streamjoin.sql

import org.apache.spark.sql.catalyst.FunctionIdentifier
import org.apache.spark.sql.catalyst.analysis.UnresolvedTableValuedFunction
import org.apache.spark.sql.catalyst.expressions.{Expression, FunctionTableSubqueryArgumentExpression}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.trees.Origin
import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.sql.streamjoin.base.StreamJoinErrors
import org.apache.spark.sql.{AnalysisException, SparkSession}

/**
 * One of our table functions, known by name. Its calls are replaced before Spark looks the name up.
 *
 * @param example
 *   sample call, for errors
 */
final private[streamjoin] case class TableFunction(name: String, example: String) {

  /** A user's function of that name takes precedence. */
  def isCalledBy(call: UnresolvedTableValuedFunction, session: SparkSession): Boolean = call.name match {
    case Seq(called) =>
      called.equalsIgnoreCase(name) &&
      !session.asInstanceOf[ClassicSession].sessionState.catalog.functionExists(FunctionIdentifier(called))
    case _ => false
  }

  /** The query in `TABLE(...)`. */
  def table(argument: Expression): LogicalPlan = argument match {
    case table: FunctionTableSubqueryArgumentExpression
        if !table.hasRepartitioning && table.orderByExpressions.isEmpty =>
      table.plan
    case _: FunctionTableSubqueryArgumentExpression =>
      throw refused("takes a table as it is, neither partitioned nor ordered", argument.origin)
    case other => throw refused(s"takes a table first, and not ${other.sql}", other.origin)
  }

  /** @param at position for the error */
  def refused(problem: String, at: Origin): AnalysisException = StreamJoinErrors.analysis(
    "STREAMJOIN_TABLE_FUNCTION",
    "call" -> name,
    "problem" -> problem,
    "example" -> example,
    "where" -> TableFunction.where(at)
  )
}

private[streamjoin] object TableFunction {

  /** A position in a query, as Spark shows it below an error. */
  def where(at: Origin): String = at.getQueryContext.map(_.summary).mkString
}
