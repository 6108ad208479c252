package org.apache.spark.sql.streamjoin.front.sql

import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.catalyst.parser._
import org.apache.spark.sql.catalyst.trees.SQLQueryContext
import org.apache.spark.sql.internal.SQLConf

/**
 * Substitutes parameters (`:x`, `?`) in a text with our clauses. Spark substitutes them in a
 * separate parse, which does not know our clauses. So Spark gets a text of the same length that
 * contains only the parameters, and its substitutions are applied to the real text.
 */
private[sql] object Parameters {

  def substitute(text: String, parameters: Option[ParameterContext]): SqlText =
    parameters.filterNot(_ => SQLConf.get.legacyParameterSubstitutionConstantsOnly) match {
      case Some(context) if text.exists("?:".contains(_)) => substitute(text, context)
      case _ => SqlText(text)
    }

  private def substitute(text: String, context: ParameterContext): SqlText = {
    // If the text cannot be parsed, the following parse reports the reason.
    val markers =
      try new ClauseParser(SqlText(text)).parameters(text)
      catch { case _: ParseException => Nil }
    if (markers.isEmpty) SqlText(text)
    else {
      val (_, mapper) =
        try ParameterHandler.substituteParameters(onlyMarkers(text, markers), context)
        catch { case error: AnalysisException => throw inText(error, text) }
      val substituted = mapper.substitutions.sortBy(-_.start).foldLeft(text) { (filled, substitution) =>
        val (start, end) =
          (filled.offsetByCodePoints(0, substitution.start), filled.offsetByCodePoints(0, substitution.end))
        filled.substring(0, start) + substitution.replacement + filled.substring(end)
      }
      new SqlText(substituted, PositionMapper(text, substituted, mapper.substitutions))
    }
  }

  /** `SELECT` and the parameters at their positions, separated by commas. */
  private def onlyMarkers(text: String, markers: Seq[ParameterLocation]): String = {
    val length = text.codePointCount(0, text.length)
    val skeleton = new StringBuilder("SELECT".padTo(length, ' '))
    markers.zipWithIndex.foreach { case (ParameterLocation(start, end), i) =>
      val (from, until) = (text.offsetByCodePoints(0, start), text.offsetByCodePoints(0, end))
      skeleton.replace(start, end, text.substring(from, until))
      if (i > 0) skeleton.setCharAt(start - 1, ',')
    }
    skeleton.toString
  }

  /** Spark's error, with the real text in it. */
  private def inText(error: AnalysisException, text: String): AnalysisException =
    new AnalysisException(
      errorClass = error.getCondition,
      messageParameters =
        scala.jdk.CollectionConverters.MapHasAsScala(error.getMessageParameters).asScala.toMap,
      context = error.getQueryContext.map {
        case context: SQLQueryContext => context.copy(sqlText = Some(text))
        case other => other
      },
      cause = None
    )
}
