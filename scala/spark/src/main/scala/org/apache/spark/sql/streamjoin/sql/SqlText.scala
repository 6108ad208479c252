package org.apache.spark.sql.streamjoin.sql

import org.antlr.v4.runtime.Token

import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.catalyst.parser.PositionMapper
import org.apache.spark.sql.catalyst.trees.{Origin, SQLQueryContext}
import org.apache.spark.sql.streamjoin.base.StreamJoinErrors

/** A text that is parsed, and the one that the user wrote, before parameters were put in. */
final private[sql] class SqlText(val parsed: String, mapper: PositionMapper) {
  private val original = mapper.originalText
  private val characters = original.codePointCount(0, original.length)

  /**
   * Where the tokens from one to another are, in the words and with the arrows of Spark's errors.
   * It is text, and no query context of the error: PySpark shows an error of an unknown name with a
   * context as an internal error.
   */
  def where(first: Token, last: Token): String = {
    // The parser counts characters, Java counts halves of those that take two.
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

  /** For what Spark says of places: in the text as it is written. */
  def origin(current: Origin): Origin =
    if (mapper.substitutions.isEmpty) current
    else
      current.copy(
        sqlText = Some(parsed),
        startIndex = Some(0),
        stopIndex = Some(parsed.length - 1),
        positionMapper = Some(mapper)
      )

  /** An error whose message ends with the place. */
  def error(name: String, first: Token, last: Token, parameters: (String, String)*): AnalysisException =
    StreamJoinErrors.analysis(name, parameters :+ ("where" -> where(first, last)): _*)
}

private[sql] object SqlText {
  def apply(text: String): SqlText = new SqlText(text, PositionMapper.identity(text))
}
