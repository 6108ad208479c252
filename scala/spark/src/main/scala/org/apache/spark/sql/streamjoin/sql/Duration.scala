package org.apache.spark.sql.streamjoin.sql

import java.util.Locale

import scala.collection.mutable
import scala.util.Try

import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.catalyst.parser.SqlBaseParser._
import org.apache.spark.sql.catalyst.parser.{CatalystSqlParser, ParserUtils}
import org.apache.spark.sql.catalyst.util.DateTimeConstants.MICROS_PER_DAY
import org.apache.spark.sql.types.{CalendarIntervalType, DayTimeIntervalType, YearMonthIntervalType}
import org.apache.spark.unsafe.types.CalendarInterval

/**
 * A duration in a query: `INTERVAL 5 SECONDS`, `INTERVAL '10' MINUTE`, `1 HOUR 30 MINUTES`, `5s`,
 * `'5 seconds'`.
 *
 * @param end
 *   index of the token after it
 * @param micros
 *   its length in microseconds, or why it has none
 */
final private[sql] case class Duration(end: Int, micros: Either[String, Long])

private[sql] object Duration {
  private val Short =
    Map("MS" -> "MILLISECOND", "S" -> "SECOND", "M" -> "MINUTE", "H" -> "HOUR", "D" -> "DAY")

  private val Varying = Seq("MONTH", "YEAR")

  private val Known: Set[String] =
    (Seq("MICROSECOND", "MILLISECOND", "SECOND", "MINUTE", "HOUR", "DAY", "WEEK") ++ Varying)
      .flatMap(unit => Seq(unit, unit + "S"))
      .toSet

  private val Units = "write ms, s, m, h or d, or SECOND, MINUTE and so on"

  private val Months = "the length of months and years varies"

  /** The duration that begins at a token, if one does. */
  def read(tokens: Tokens, from: Int): Option[Duration] = new Reader(tokens, from).duration

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

  private val Glued = """(\d+)([A-Za-z]+)""".r
  private val Part = """(\d)\s*([A-Za-z]+)""".r

  /** Consumes tokens while they continue a duration, and rewrites them in Spark's syntax. */
  final private class Reader(tokens: Tokens, from: Int) {
    private var at = from
    private val written = new StringBuilder
    private val units = mutable.ArrayBuffer.empty[String]
    private var withoutUnit = false

    def duration: Option[Duration] = {
      if (isSign && tokens.is(at + 1, "INTERVAL")) take(tokens.word(at))
      if (tokens.is(at, "INTERVAL")) at += 1
      written ++= "INTERVAL "
      val begun = at
      while (part()) {}
      if (at == begun) None else Some(Duration(at, length))
    }

    private def isSign = tokens.isType(at, MINUS, PLUS)

    private def isUnit = tokens.isType(at, IDENTIFIER) || Known(tokens.word(at))

    private def take(text: String): Unit = {
      written ++= text ++= " "
      at += 1
    }

    private def unit(text: String): String = {
      val long = Short.getOrElse(text.toUpperCase(Locale.ROOT), text)
      units += long
      long
    }

    private def takeUnit(): Unit = take(unit(tokens(at).getText))

    /** A number with its unit, a string with or without one, or a parameter. */
    private def part(): Boolean = {
      val before = (at, written.length)
      if (isSign) take(tokens.word(at))
      tokens(at).getText match {
        case Glued(number, letters) => take(s"$number ${unit(letters)}")
        case number if tokens.isType(at, INTEGER_VALUE, DECIMAL_VALUE) =>
          take(number)
          if (isUnit) takeUnit() else withoutUnit = true
        case string if tokens.isType(at, STRING_LITERAL, DOUBLEQUOTED_STRING) => text(string)
        case _ if tokens.isType(at, QUESTION, COLON) =>
          if (tokens.isType(at, COLON)) take(":")
          take(tokens(at).getText)
          if (isUnit) takeUnit()
        case _ =>
          at = before._1
          written.setLength(before._2)
      }
      at > before._1
    }

    /** `'5' MINUTE`, `'05:00' MINUTE TO SECOND` or `'5 minutes'`. */
    private def text(string: String): Unit = {
      at += 1
      if (isUnit) {
        written ++= string ++= " "
        takeUnit()
        if (tokens.is(at, "TO")) {
          take("TO")
          takeUnit()
        }
      } else
        written ++= Part.replaceAllIn(
          ParserUtils.unescapeSQLString(string),
          part => s"${part.group(1)} ${unit(part.group(2))}"
        )
    }

    private def length: Either[String, Long] = {
      val upper = units.map(_.toUpperCase(Locale.ROOT))
      units.zip(upper).collectFirst { case (text, unit) if !Known(unit) => text } match {
        case Some(unknown) => Left(s"$unknown is no unit of time; $Units")
        case None if withoutUnit => Left(s"it has no unit; $Units")
        case None if upper.exists(unit => Varying.exists(unit.startsWith)) => Left(Months)
        case None =>
          Try(CatalystSqlParser.parseExpression(written.toString))
            .fold(_ => Left("Spark cannot read it as an interval"), micros)
      }
    }
  }
}
