package org.apache.spark.sql.streamjoin.sql

import org.antlr.v4.runtime.{CommonToken, Token}

import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.catalyst.parser.SqlBaseParser

import streamjoin.core.JoinWindow

/** Where a clause may stand. */
sealed private[sql] trait Position

private[sql] object Position {

  /** After the right input of a join with its alias, or after the condition. */
  case object OfJoin extends Position

  /** After the name of an input, before its alias. */
  case object OfInput extends Position
}

/**
 * Words that look like a clause of ours. They are one if they stand after an input of a join,
 * which is known when the rest of the text is parsed.
 *
 * @param tokens
 *   its own
 * @param besides
 *   a word elsewhere that belongs to it: the `ASOF` of a `MATCH_CONDITION`
 * @param depth
 *   in how many parentheses it is
 * @param content
 *   what it says, or what is wrong with it
 */
final private[sql] class FoundClause(
    val position: Position,
    val tokens: Seq[Token],
    besides: Option[Token],
    val depth: Int,
    val content: Either[AnalysisException, Clause]
) {
  def first: Token = tokens.head
  def last: Token = tokens.last

  private def all: Seq[CommonToken] = (tokens ++ besides).collect { case token: CommonToken => token }

  /** Spark's grammar sees nothing of it, as of a comment; the places of all other tokens stay. */
  def hide(): Unit = all.foreach(_.setChannel(FoundClause.Hidden))

  def show(): Unit = all.foreach(_.setChannel(Token.DEFAULT_CHANNEL))
}

private[sql] object FoundClause {

  /** A channel that no token of Spark's is on. */
  private val Hidden = 9

  private val Words = """(?i)\b(WITHIN|OVER|SYSTEM_TIME|MATCH_CONDITION)\b""".r

  /** A text without any of these words has no clause of ours. */
  def mayBeIn(text: String): Boolean = Words.findFirstIn(text).isDefined

  def in(tokens: Tokens, text: SqlText): Seq[FoundClause] = new ClauseFinder(tokens, text).all
}

final private class ClauseFinder(tokens: Tokens, text: SqlText) {

  def all: Seq[FoundClause] = tokens.indices.flatMap { at =>
    within(at).orElse(over(at)).orElse(asOf(at)).orElse(matchCondition(at))
  }

  private def error(name: String, from: Int, until: Int, parameters: (String, String)*) =
    text.error(name, tokens(from), tokens(until - 1), parameters: _*)

  private def found(
      position: Position,
      from: Int,
      until: Int,
      content: Either[AnalysisException, String => Clause],
      besides: Option[Token] = None
  ): FoundClause = new FoundClause(
    position,
    tokens.slice(from, until),
    besides,
    tokens.depth(from),
    content.map(_(text.where(tokens(from), tokens(until - 1))))
  )

  private def within(at: Int): Option[FoundClause] = if (!tokens.is(at, "WITHIN")) None
  else {
    def refused(until: Int, reason: String) =
      Left(
        error(
          "STREAMJOIN_CLAUSE_DURATION",
          at,
          until,
          "clause" -> "WITHIN",
          "reason" -> reason,
          "example" -> WithinExample
        )
      )
    if (tokens.is(at + 1, "BETWEEN"))
      for {
        low <- Duration.read(tokens, at + 2)
        if tokens.is(low.end, "AND")
        high <- Duration.read(tokens, low.end + 1)
      } yield found(
        Position.OfJoin,
        at,
        high.end,
        low.micros.flatMap(least => high.micros.map(least -> _)) match {
          case Left(reason) => refused(high.end, reason)
          case Right((least, greatest)) if least > greatest =>
            refused(high.end, "its lower limit is above the upper one")
          case Right((least, greatest)) => Right(Within(least, greatest, _))
        }
      )
    else
      Duration.read(tokens, at + 1).map { distance =>
        found(
          Position.OfJoin,
          at,
          distance.end,
          distance.micros match {
            case Left(reason) => refused(distance.end, reason)
            case Right(micros) if micros < 0 =>
              refused(distance.end, "it is negative, and the distance of two times never is")
            case Right(micros) => Right(Within(-micros, micros, _))
          }
        )
      }
  }

  private val WithinExample =
    "WITHIN INTERVAL 5 SECONDS, WITHIN 5s or WITHIN BETWEEN 0 SECONDS AND INTERVAL 1 HOUR"

  private def over(at: Int): Option[FoundClause] =
    if (!tokens.is(at, "OVER", "(") || !Seq("RANGE", "ROWS").contains(tokens.word(at + 2))) None
    else {
      val closing = tokens.closing(at + 1)
      def refused(reason: String) =
        Left(
          error(
            "STREAMJOIN_CLAUSE_DURATION",
            at,
            closing + 1,
            "clause" -> "OVER",
            "reason" -> reason,
            "example" -> OverExample
          )
        )
      val content =
        if (tokens.is(at + 2, "ROWS"))
          refused("its rows are counted, and how many rows come within a time is not known")
        else
          Duration.read(tokens, at + 3) match {
            case Some(Duration(end, micros))
                if end + 1 == closing && Seq("FOLLOWING", "PRECEDING").contains(tokens.word(end)) =>
              micros match {
                case Left(reason) => refused(reason)
                case Right(length) if length <= 0 => refused("the window has no length")
                case Right(length) => Right(Over(JoinWindow(length, tokens.is(end, "FOLLOWING")), _))
              }
            case _ => refused("a window over an input of a join is one duration, FOLLOWING or PRECEDING")
          }
      Some(found(Position.OfInput, at, closing + 1, content))
    }

  private val OverExample =
    "OVER (RANGE INTERVAL '10' MINUTE FOLLOWING) or OVER (RANGE INTERVAL '10' MINUTE PRECEDING)"

  /**
   * `FOR SYSTEM_TIME AS OF` a column of the other input. With a time it is Spark's time travel.
   */
  private def asOf(at: Int): Option[FoundClause] =
    if (!tokens.is(at, "FOR", "SYSTEM_TIME", "AS", "OF") || !isName(at + 4) || isNow(at + 4)) None
    else {
      var end = at + 5
      while (tokens.isType(end, SqlBaseParser.DOT) && isName(end + 1)) end += 2
      if (tokens.isType(end, SqlBaseParser.LEFT_PAREN, SqlBaseParser.STRING_LITERAL)) None
      else
        Some(
          found(
            Position.OfInput,
            at,
            end,
            Right(AsOfTime((at + 4 until end by 2).map(nameAt), _))
          )
        )
    }

  private def isNow(at: Int): Boolean = tokens.is(at, "CURRENT_TIMESTAMP") || tokens.is(at, "CURRENT_DATE")

  private def nameAt(at: Int): String = {
    val text = tokens(at).getText
    if (tokens.isType(at, SqlBaseParser.BACKQUOTED_IDENTIFIER))
      text.substring(1, text.length - 1).replace("``", "`")
    else text
  }

  private def isName(at: Int): Boolean =
    tokens.isType(at, SqlBaseParser.BACKQUOTED_IDENTIFIER) || tokens.word(at).matches("[A-Z_][A-Z0-9_]*")

  /**
   * `ASOF JOIN b MATCH_CONDITION (a.t >= b.t)`. In front of names alone, both words are aliases.
   */
  private def matchCondition(at: Int): Option[FoundClause] =
    if (!tokens.is(at, "MATCH_CONDITION", "(")) None
    else {
      val closing = tokens.closing(at + 1)
      val isAlias = (at + 2 until closing).forall(i => isName(i) || tokens.isType(i, SqlBaseParser.COMMA))
      (at - 1 to 0 by -1)
        .find(i => tokens.is(i, "ASOF", "JOIN") && tokens.depth(i) == tokens.depth(at))
        .filterNot(_ => isAlias)
        .map { asof =>
          found(
            Position.OfJoin,
            at,
            closing + 1,
            Right(MatchCondition(text.between(tokens(at + 2), tokens(closing - 1)), _)),
            Some(tokens(asof))
          )
        }
    }
}
