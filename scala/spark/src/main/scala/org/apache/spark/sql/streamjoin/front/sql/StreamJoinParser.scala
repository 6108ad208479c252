package org.apache.spark.sql.streamjoin.front.sql

import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.catalyst.analysis.{NamedParameter, PosParameter}
import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.catalyst.parser.{ParameterContext, ParseException, ParserInterface}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.trees.CurrentOrigin
import org.apache.spark.sql.catalyst.{FunctionIdentifier, TableIdentifier}
import org.apache.spark.sql.internal.{SQLConf, VariableSubstitution}
import org.apache.spark.sql.types.{DataType, StructType}

/**
 * Adds our clauses to Spark's parser, or to another extension's. Spark calls it for each SQL text.
 * The other parser runs first, so a text that it accepts keeps its meaning; our parser handles only
 * texts that it rejects.
 */
final private[streamjoin] class StreamJoinParser(protected val other: ParserInterface)
    extends ForwardingParser {

  override def parsePlan(sqlText: String): LogicalPlan =
    orOurs(sqlText, None)(other.parsePlan(sqlText))(_.parsePlan(_))

  override def parsePlanWithParameters(sqlText: String, parameters: ParameterContext): LogicalPlan =
    orOurs(sqlText, Some(parameters))(theirs(sqlText, parameters))(_.parsePlan(_))

  /**
   * The parser of another extension may not support parameters: it then forwards the text without
   * their values.
   */
  private def theirs(sqlText: String, parameters: ParameterContext): LogicalPlan = {
    val plan = other.parsePlanWithParameters(sqlText, parameters)
    if (SQLConf.get.legacyParameterSubstitutionConstantsOnly || !hasMarkers(plan)) plan
    else {
      val text = Parameters.substitute(new VariableSubstitution().substitute(sqlText), Some(parameters))
      CurrentOrigin.withOrigin(text.origin(CurrentOrigin.get))(other.parsePlan(text.parsed))
    }
  }

  private def hasMarkers(plan: LogicalPlan): Boolean =
    plan
      .collectWithSubqueries { case operator => operator.expressions }
      .flatten
      .exists(_.exists {
        case _: NamedParameter | _: PosParameter => true
        case _ => false
      })

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
        ours(Parameters.substitute(expanded, parameters), unknown, parameters.isEmpty)(parse)
    }

  /**
   * @param unknown
   *   error of the other parser
   * @param withoutParameters
   *   whether no values of parameters were given
   */
  private def ours[T](text: SqlText, unknown: ParseException, withoutParameters: Boolean)(
      parse: (ClauseParser, String) => T
  ): T = {
    val parser = new ClauseParser(text)
    val result =
      try CurrentOrigin.withOrigin(text.origin(CurrentOrigin.get))(Right(parse(parser, text.parsed)))
      catch { case error: ParseException => Left(error) }
    parser.error.foreach { error =>
      throw (if (withoutParameters) parser.parameterInClause.fold(error)(lostParameter(_, text)) else error)
    }
    result match {
      case Right(plan) if parser.claimed.nonEmpty => plan
      case Left(error) if parser.hasClauses => throw error
      case _ => throw unknown
    }
  }

  /** An outer parser has dropped the values, so no inner parser can know them. */
  private def lostParameter(clause: FoundClause, text: SqlText): AnalysisException =
    text.error("STREAMJOIN_CLAUSE_PARAMETER", clause.first, clause.last)
}
