package org.apache.spark.sql.streamjoin.base

import org.apache.spark.sql.catalyst.FunctionIdentifier
import org.apache.spark.sql.catalyst.analysis.UnresolvedTableValuedFunction
import org.apache.spark.sql.catalyst.expressions.{
  Expression,
  FunctionTableSubqueryArgumentExpression,
  NamedArgumentExpression
}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.trees.Origin
import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
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

  /**
   * The arguments in the order of their names; some may be named, as in `lag => INTERVAL 5
   * SECONDS`.
   */
  def arguments(call: UnresolvedTableValuedFunction, names: String*): Seq[Expression] = {
    val (named, inOrder) = call.functionArgs.partition(_.isInstanceOf[NamedArgumentExpression])
    val byName = named.collect { case NamedArgumentExpression(key, value) =>
      val name = names.find(_.equalsIgnoreCase(key)).getOrElse {
        throw refused(s"has no argument $key, but ${names.mkString(", ")}", value.origin)
      }
      if (names.take(inOrder.size).contains(name)) throw refused(s"has $name twice", value.origin)
      name -> value
    }
    byName.groupBy(_._1).values.find(_.size > 1).foreach { twice =>
      throw refused(s"has ${twice.head._1} twice", twice(1)._2.origin)
    }
    inOrder ++ names.drop(inOrder.size).flatMap(byName.toMap.get)
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
