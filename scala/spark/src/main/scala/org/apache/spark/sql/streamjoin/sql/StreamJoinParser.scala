package org.apache.spark.sql.streamjoin.sql

import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.catalyst.parser.{ParameterContext, ParseException, ParserInterface}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.trees.CurrentOrigin
import org.apache.spark.sql.catalyst.{FunctionIdentifier, TableIdentifier}
import org.apache.spark.sql.internal.VariableSubstitution
import org.apache.spark.sql.types.{DataType, StructType}

/**
 * Adds our clauses to Spark's parser, or to another extension's. Spark calls it for each SQL text.
 * The other parser goes first, so what it accepts keeps its meaning; ours reads only what it
 * rejects.
 */
final private[streamjoin] class StreamJoinParser(protected val other: ParserInterface) extends ParserOfLine {

  override def parsePlan(sqlText: String): LogicalPlan =
    orOurs(sqlText, None)(other.parsePlan(sqlText))(_.parsePlan(_))

  override def parsePlanWithParameters(sqlText: String, parameters: ParameterContext): LogicalPlan =
    orOurs(sqlText, Some(parameters))(other.parsePlanWithParameters(sqlText, parameters))(_.parsePlan(_))

  override def parseQuery(sqlText: String): LogicalPlan =
    orOurs(sqlText, None)(other.parseQuery(sqlText))(_.parseQuery(_))

  override def parseExpression(sqlText: String): Expression =
    orOurs(sqlText, None)(other.parseExpression(sqlText))(_.parseExpression(_))

  override def parseTableIdentifier(sqlText: String): TableIdentifier = other.parseTableIdentifier(sqlText)
  override def parseFunctionIdentifier(sqlText: String): FunctionIdentifier =
    other.parseFunctionIdentifier(sqlText)
  override def parseMultipartIdentifier(sqlText: String): Seq[String] =
    other.parseMultipartIdentifier(sqlText)
  override def parseRoutineParam(sqlText: String): StructType = other.parseRoutineParam(sqlText)
  override def parseDataType(sqlText: String): DataType = other.parseDataType(sqlText)
  override def parseTableSchema(sqlText: String): StructType = other.parseTableSchema(sqlText)

  private def orOurs[T](sqlText: String, parameters: Option[ParameterContext])(theirs: => T)(
      parse: (ClauseParser, String) => T
  ): T =
    try theirs
    catch {
      case unknown: ParseException =>
        val expanded = new VariableSubstitution().substitute(sqlText)
        if (!FoundClause.mayBeIn(expanded)) throw unknown
        ours(Parameters.substitute(expanded, parameters), unknown)(parse)
    }

  /** @param unknown error of the other parser */
  private def ours[T](text: SqlText, unknown: ParseException)(parse: (ClauseParser, String) => T): T = {
    val parser = new ClauseParser(text)
    val result =
      try CurrentOrigin.withOrigin(text.origin(CurrentOrigin.get))(Right(parse(parser, text.parsed)))
      catch { case error: ParseException => Left(error) }
    parser.error.foreach(throw _)
    result match {
      case Right(plan) if parser.claimed.nonEmpty => plan
      case Left(error) if parser.hasClauses => throw error
      case _ => throw unknown
    }
  }
}
