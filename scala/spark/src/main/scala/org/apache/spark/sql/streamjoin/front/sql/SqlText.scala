package org.apache.spark.sql.streamjoin.front.sql

import org.antlr.v4.runtime.Token

import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.catalyst.parser.PositionMapper
import org.apache.spark.sql.catalyst.trees.{Origin, SQLQueryContext}
import org.apache.spark.sql.streamjoin.base.StreamJoinErrors

/** A text to parse, and the user's text before parameters were substituted. */
final private[sql] class SqlText(val parsed: String, mapper: PositionMapper) {
  private val original = mapper.originalText
  private val characters = original.codePointCount(0, original.length)

  /**
   * The position of a range of tokens, in the words of Spark's errors and with their arrows. It is
   * text instead of the error's query context, because PySpark shows an unknown error with a
   * context as an internal error.
   */
  def where(first: Token, last: Token): String = {
    // The parser counts code points, Java UTF-16 code units.
    def written(at: Int) = original.offsetByCodePoints(0, math.min(mapper.mapToOriginal(at), characters - 1))
    val start = written(first.getStartIndex)
    val stop = math.max(start, written(last.getStopIndex))
    val above = original.take(start)
    val line = above.count(_ == '\n') + 1
    val column = start - (above.lastIndexOf('\n') + 1)
    SQLQueryContext(
      Some(line),
      Some(column),
      Some(start),
      Some(stop),
      Some(original),
      None,
      None
    ).summary
  }

  /** Makes Spark report positions in the text that the user wrote. */
  def origin(current: Origin): Origin =
    if (mapper.substitutions.isEmpty) current
    else
      current.copy(
        sqlText = Some(parsed),
        startIndex = Some(0),
        stopIndex = Some(parsed.length - 1),
        positionMapper = Some(mapper)
      )

  /** An error whose message ends with the position. */
  def error(name: String, first: Token, last: Token, parameters: (String, String)*): AnalysisException =
    StreamJoinErrors.analysis(name, parameters :+ ("where" -> where(first, last)): _*)
}

private[sql] object SqlText {
  def apply(text: String): SqlText = new SqlText(text, PositionMapper.identity(text))
}
