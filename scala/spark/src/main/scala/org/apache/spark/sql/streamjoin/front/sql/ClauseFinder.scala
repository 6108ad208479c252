package org.apache.spark.sql.streamjoin.front.sql

import org.antlr.v4.runtime.{CommonToken, CommonTokenStream, Token}

import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.catalyst.parser.{AbstractSqlParser, ParseException, SqlBaseParser}
import org.apache.spark.sql.execution.SparkSqlAstBuilder
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streamjoin.plans.{AsOfTime, Clause, MatchCondition, Over, Within}

import streamjoin.core.JoinWindow

/** Finds our clauses among the tokens of a statement. */
final private[sql] class ClauseFinder(tokens: Tokens, text: SqlText) {

  /** No clause begins inside another: `MATCH_CONDITION (a.t >= b.within - INTERVAL 1 HOUR)`. */
  def all: Seq[FoundClause] = tokens.indices
    .foldLeft((Seq.empty[FoundClause], 0)) { case ((before, end), at) =>
      Option
        .when(at >= end && (isAfterOperand(at) || mayBeAfterName(at)))(at)
        .flatMap(at => within(at).orElse(over(at)).orElse(asOf(at)).orElse(matchCondition(at)))
        .fold((before, end))(clause => (before :+ clause, at + clause.tokens.size))
    }
    ._1

  /**
   * A clause follows an input or a condition. If an operand is expected, its first word is a
   * column: `o.within - 5`, `WHERE within BETWEEN 1 AND 5`.
   */
  private def isAfterOperand(at: Int): Boolean = at > 0 && {
    val before = tokens(at - 1).getText
    val isQualified = at > 1 && tokens.isType(at - 2, SqlBaseParser.DOT)
    ClauseFinder.endsOperand(before.last) && (isQualified || !ClauseFinder.BeforeOperand(tokens.word(at - 1)))
  }

  private def mayBeAfterName(at: Int): Boolean = at > 1 && ClauseFinder.MayBeNames(tokens.word(at - 1))

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
    content.map(_(text.where(tokens(from), tokens(until - 1)))),
    !isAfterOperand(from)
  )

  private def within(at: Int): Option[FoundClause] = if (!tokens.is(at, "WITHIN")) None
  else {
    def rejected(until: Int, reason: String) =
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
          case Left(reason) => rejected(high.end, reason)
          case Right((least, greatest)) if least > greatest =>
            rejected(high.end, "its lower limit is above the upper one")
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
            case Left(reason) => rejected(distance.end, reason)
            case Right(micros) if micros < 0 =>
              rejected(distance.end, "it is negative, and a distance between two times cannot be")
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
      def rejected(reason: String) =
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
          rejected("it counts rows, and the number of rows within a period is unknown")
        else
          Duration.read(tokens, at + 3) match {
            case Some(Duration(end, micros))
                if end + 1 == closing && Seq("FOLLOWING", "PRECEDING").contains(tokens.word(end)) =>
              micros match {
                case Left(reason) => rejected(reason)
                case Right(length) if length <= 0 => rejected("the window has no length")
                case Right(length) => Right(Over(JoinWindow(length, tokens.is(end, "FOLLOWING")), _))
              }
            case _ => rejected("a window over an input of a join is one duration, FOLLOWING or PRECEDING")
          }
      Some(found(Position.OfInput, at, closing + 1, content))
    }

  private val OverExample =
    "OVER (RANGE INTERVAL '10' MINUTE FOLLOWING) or OVER (RANGE INTERVAL '10' MINUTE PRECEDING)"

  /** `FOR SYSTEM_TIME AS OF` a column of the other input. With a time it is Spark's time travel. */
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
    if (isQuoted(at)) {
      val quote = text.take(1)
      text.substring(1, text.length - 1).replace(quote * 2, quote)
    } else text
  }

  private def isName(at: Int): Boolean = isQuoted(at) || tokens.word(at).matches("[A-Z_][A-Z0-9_]*")

  /** A setting of ANSI mode makes double quotes enclose names. */
  private def isQuoted(at: Int): Boolean = tokens.isType(at, SqlBaseParser.BACKQUOTED_IDENTIFIER) ||
    tokens.isType(at, SqlBaseParser.DOUBLEQUOTED_STRING) && SQLConf.get.doubleQuotedIdentifiers

  /** `ASOF JOIN b MATCH_CONDITION (a.t >= b.t)`. Before a list of names, both words are aliases. */
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
            condition(at + 1, closing).map(compared => MatchCondition(compared, _)),
            Some(tokens(asof))
          )
        }
    }

  /** The condition in parentheses. A parse error keeps its position in the whole text. */
  private def condition(open: Int, closing: Int): Either[AnalysisException, Expression] =
    try Right(new FragmentParser(tokens(open), tokens(closing)).parseExpression(text.parsed))
    catch { case error: ParseException => Left(error) }
}

private[sql] object ClauseFinder {

  /** Whether it ends a name, a literal, a parameter or parentheses. */
  def endsOperand(character: Char): Boolean =
    Character.isLetterOrDigit(character) || "_`'\")]?".contains(character)

  /** Keywords before an operand. */
  val BeforeOperand: Set[String] = Set("SELECT", "EXTEND", "SET", "DISTINCT", "ALL", "ANY", "SOME") ++
    Set("FROM", "ON", "WHERE", "HAVING", "QUALIFY", "BY", "LIMIT", "OFFSET", "VALUES") ++
    Set("AND", "OR", "NOT", "BETWEEN", "IN", "LIKE", "ILIKE", "RLIKE", "REGEXP", "ESCAPE", "DIV") ++
    Set("CASE", "WHEN", "THEN", "ELSE")

  /** Keywords that in practice are also names of tables, aliases or columns. */
  val MayBeNames: Set[String] =
    Set("SET", "ALL", "ANY", "SOME", "VALUES", "LIMIT", "OFFSET", "EXTEND", "ESCAPE") ++
      Set("DIV", "BY")
}

/**
 * Parses one part of a text in place, while other tokens are hidden from Spark's parser.
 * [[ClauseFinder]] uses it for conditions, before the rest of the text is parsed.
 */
final private class FragmentParser(first: Token, last: Token) extends AbstractSqlParser {
  override val astBuilder: SparkSqlAstBuilder = new SparkSqlAstBuilder

  override protected def parse[T](command: String)(toResult: SqlBaseParser => T): T =
    super.parse(command) { parser =>
      val tokens = Tokens.of(parser.getTokenStream.asInstanceOf[CommonTokenStream])
      tokens.indices.map(tokens(_)).foreach {
        case token: CommonToken if token.getType != Token.EOF && !isInside(token) =>
          token.setChannel(FoundClause.Hidden)
        case _ =>
      }
      parser.reset()
      toResult(parser)
    }

  private def isInside(token: Token): Boolean =
    token.getStartIndex >= first.getStartIndex && token.getStopIndex <= last.getStopIndex
}
