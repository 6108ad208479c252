package org.apache.spark.sql.streamjoin.sql

import java.util.Locale

import scala.util.Try

import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.catalyst.parser.{CatalystSqlParser, ParseException, ParserUtils, SqlBaseParser}
import org.apache.spark.sql.catalyst.util.DateTimeConstants.MICROS_PER_DAY
import org.apache.spark.sql.types.{CalendarIntervalType, DayTimeIntervalType, YearMonthIntervalType}
import org.apache.spark.unsafe.types.CalendarInterval

/**
 * A duration in a query: `INTERVAL 5 SECONDS`, `INTERVAL '10' MINUTE`, `1 HOUR 30 MINUTES`, `5s`,
 * `'5 seconds'`.
 *
 * @param end
 *   the token behind it
 * @param micros
 *   its length, or why it has none
 */
final private[sql] case class Duration(end: Int, micros: Either[String, Long])

private[sql] object Duration {
  private val ShortUnits =
    Map("MS" -> "MILLISECOND", "S" -> "SECOND", "M" -> "MINUTE", "H" -> "HOUR", "D" -> "DAY")

  private val LongUnits =
    Seq("MICROSECOND", "MILLISECOND", "SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "YEAR")
      .flatMap(unit => Seq(unit, unit + "S"))
      .toSet

  val Units = "ms, s, m, h or d"

  private val Glued = """(\d+)([A-Za-z]+)""".r
  private val Part = """(\d)\s*([A-Za-z]+)""".r

  /** The duration that begins at a token, if one begins there. */
  def read(tokens: Tokens, from: Int): Option[Duration] = {
    import SqlBaseParser._
    var at = from
    val text = new StringBuilder
    var unknown = Option.empty[String]
    var withoutUnit = false
    def take(written: String): Unit = {
      text ++= written ++= " "
      at += 1
    }
    def isSign = tokens.isType(at, MINUS, PLUS)
    def unit(written: String): String = {
      val upper = written.toUpperCase(Locale.ROOT)
      if (!ShortUnits.contains(upper) && !LongUnits(upper)) unknown = unknown.orElse(Some(written))
      ShortUnits.getOrElse(upper, upper)
    }
    def isUnit = tokens.isType(at, IDENTIFIER) || LongUnits(tokens.word(at))
    // A number or a text with its unit, if there is one.
    def part(): Boolean = {
      val before = (at, text.length)
      if (isSign) take(tokens.word(at))
      tokens(at).getText match {
        case Glued(number, letters) => take(s"$number ${unit(letters)}")
        case number if tokens.isType(at, INTEGER_VALUE, DECIMAL_VALUE) =>
          take(number)
          if (isUnit) take(unit(tokens(at).getText)) else withoutUnit = true
        case string if tokens.isType(at, STRING_LITERAL, DOUBLEQUOTED_STRING) =>
          at += 1
          if (isUnit) {
            text ++= string ++= " "
            take(unit(tokens(at).getText))
            if (tokens.is(at, "TO")) {
              take("TO")
              take(unit(tokens(at).getText))
            }
          } else
            text ++= Part.replaceAllIn(
              ParserUtils.string(tokens(at - 1)),
              m => s"${m.group(1)} ${unit(m.group(2))}"
            )
        case _ if tokens.isType(at, QUESTION, COLON) =>
          if (tokens.isType(at, COLON)) take(":")
          take(tokens(at).getText)
          if (isUnit) take(unit(tokens(at).getText))
        case _ =>
          at = before._1
          text.setLength(before._2)
      }
      at > before._1
    }
    if (isSign && tokens.is(at + 1, "INTERVAL")) take(tokens.word(at))
    if (tokens.is(at, "INTERVAL")) take("INTERVAL") else text ++= "INTERVAL "
    val begun = at
    while (part()) {}
    if (at == begun) None
    else
      Some(
        Duration(
          at,
          if (unknown.isDefined)
            Left(s"${unknown.get} is no unit of time; write $Units, or SECOND, MINUTE and so on")
          else if (withoutUnit) Left(s"it has no unit; write $Units, or SECOND, MINUTE and so on")
          else constant(text.toString)
        )
      )
  }

  private def constant(text: String): Either[String, Long] =
    Try(CatalystSqlParser.parseExpression(text)).toEither.left
      .map {
        case error: ParseException => s"it is no interval (${error.getCondition})"
        case error => s"it is no interval (${error.getMessage})"
      }
      .flatMap(micros)

  val Months = "the length of months and years varies"

  /** The length of a constant interval in microseconds, or why it has none. */
  def micros(interval: Expression): Either[String, Long] =
    if (!interval.resolved || !interval.foldable) Left("it is not constant")
    else
      (interval.dataType, interval.eval()) match {
        case (_: DayTimeIntervalType, micros: Long) => Right(micros)
        case (_: YearMonthIntervalType, _) => Left(Months)
        case (CalendarIntervalType, calendar: CalendarInterval) =>
          if (calendar.months != 0) Left(Months)
          else Right(calendar.days * MICROS_PER_DAY + calendar.microseconds)
        case _ => Left("it is no interval")
      }
}
