package org.apache.spark.sql.streamjoin.front.sql

import org.antlr.v4.runtime.{CommonToken, Token}

import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.streamjoin.plans.Clause

/** The possible positions of a clause. */
sealed private[streamjoin] trait Position

private[streamjoin] object Position {

  /** After the right input of a join and its alias, or after the join condition. */
  case object OfJoin extends Position

  /** After the name of an input, before its alias. */
  case object OfInput extends Position
}

/**
 * Tokens that look like one of our clauses. They are one if they follow an input of a join, which
 * is known once the rest of the text is parsed.
 *
 * @param tokens
 *   tokens of the clause
 * @param besides
 *   a token elsewhere that belongs to the clause: the `ASOF` of a `MATCH_CONDITION`
 * @param depth
 *   number of parentheses around it
 * @param content
 *   the clause that is read from it, or its error
 * @param isDoubtful
 *   whether the word before it is a keyword. The first word of the clause is then a column, unless
 *   the keyword is used as a name: `LIMIT within - 5`, `JOIN deliveries limit WITHIN 5s`
 */
final private[sql] class FoundClause(
    val position: Position,
    val tokens: Seq[Token],
    besides: Option[Token],
    val depth: Int,
    val content: Either[AnalysisException, Clause],
    val isDoubtful: Boolean
) {
  def first: Token = tokens.head
  def last: Token = tokens.last

  private def all: Seq[CommonToken] = (tokens ++ besides).collect { case token: CommonToken => token }

  /** Hides it from Spark's grammar, as a comment is; all other tokens keep their positions. */
  def hide(): Unit = all.foreach(_.setChannel(FoundClause.Hidden))

  def show(): Unit = all.foreach(_.setChannel(Token.DEFAULT_CHANNEL))
}

private[sql] object FoundClause {

  /** A channel that Spark does not use. */
  private[sql] val Hidden = 9

  private val Words = """(?i)\b(WITHIN|OVER|SYSTEM_TIME|MATCH_CONDITION)\b""".r

  /** Whether a text contains any keyword of our clauses. Without one, it contains no clause. */
  def mayBeIn(text: String): Boolean = Words.findFirstIn(text).isDefined

  def in(tokens: Tokens, text: SqlText): Seq[FoundClause] = new ClauseFinder(tokens, text).all
}
