package org.apache.spark.sql.streamjoin.front.sql

import java.util.Locale

import scala.collection.mutable
import scala.util.Try

import org.apache.spark.sql.catalyst.parser.SqlBaseParser._
import org.apache.spark.sql.catalyst.parser.{CatalystSqlParser, ParserUtils}
import org.apache.spark.sql.streamjoin.time.IntervalLength

/**
 * A duration in a query: `INTERVAL 5 SECONDS`, `INTERVAL '10' MINUTE`, `1 HOUR 30 MINUTES`,
 * `1.5 HOURS`, `5s`, `'5 seconds'`, `'1h30m'`.
 *
 * @param end
 *   index of the token after it
 * @param micros
 *   its length in microseconds, or why it has none
 */
final private[streamjoin] case class Duration(end: Int, micros: Either[String, Long])

private[streamjoin] object Duration {
  private val Short =
    Map("MS" -> "MILLISECOND", "S" -> "SECOND", "M" -> "MINUTE", "H" -> "HOUR", "D" -> "DAY")

  private val Varying = Seq("MONTH", "YEAR")

  private val Known: Set[String] =
    (Seq("MICROSECOND", "MILLISECOND", "SECOND", "MINUTE", "HOUR", "DAY", "WEEK") ++ Varying)
      .flatMap(unit => Seq(unit, unit + "S"))
      .toSet

  private val Units = "write ms, s, m, h or d, or SECOND, MINUTE and so on"

  /** The duration that begins at a token, if one does. */
  def read(tokens: Tokens, from: Int): Option[Duration] = new Reader(tokens, from).duration

  private val Glued = """(\d+(?:\.\d*)?|\.\d+)([A-Za-z]+)""".r
  private val Part = """(\d+(?:\.\d*)?|\.\d+)\s*([A-Za-z]+)""".r

  private val Micros = Map(
    "MILLISECOND" -> 1000L,
    "SECOND" -> 1000000L,
    "MINUTE" -> 60000000L,
    "HOUR" -> 3600000000L,
    "DAY" -> 86400000000L,
    "WEEK" -> 604800000000L
  )

  /** A number with its unit as Spark reads it: Spark has fractions of seconds only. */
  private def whole(number: String, unit: String): String = {
    val length = Micros.get(unit.toUpperCase(Locale.ROOT).stripSuffix("S")).filter(_ => number.contains("."))
    val micros = length.map(BigDecimal(number.stripSuffix(".")) * _).filter(_.isWhole)
    micros.fold(s"$number $unit")(value => s"${value.toBigInt} MICROSECOND")
  }

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

    /** `1.5h` is a number, a dot and a name to Spark. */
    private def isGluedFraction: Boolean = {
      def next(i: Int) = tokens(i).getStopIndex + 1 == tokens(i + 1).getStartIndex
      tokens.isType(at, INTEGER_VALUE) && tokens.isType(at + 1, DOT) && next(at) && next(at + 1) &&
      tokens(at + 2).getText.matches("\\d+[A-Za-z]+")
    }

    /** A number with its unit, a string with or without one, or a parameter. */
    private def part(): Boolean = {
      val before = (at, written.length)
      if (isSign) take(tokens.word(at))
      tokens(at).getText match {
        case Glued(number, letters) => take(whole(number, unit(letters)))
        case number if isGluedFraction =>
          val Glued(fraction, letters) = tokens(at + 2).getText: @unchecked
          at += 2
          take(whole(s"$number.$fraction", unit(letters)))
        case number if tokens.isType(at, INTEGER_VALUE, DECIMAL_VALUE) =>
          at += 1
          if (isUnit) take(whole(number, unit(tokens(at).getText)))
          else {
            written ++= number ++= " "
            withoutUnit = true
          }
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
          part => s"${whole(part.group(1), unit(part.group(2)))} "
        )
    }

    private def length: Either[String, Long] = {
      val upper = units.map(_.toUpperCase(Locale.ROOT))
      units.zip(upper).collectFirst { case (text, unit) if !Known(unit) => text } match {
        case Some(unknown) => Left(s"$unknown is not a unit of time; $Units")
        case None if withoutUnit => Left(s"it has no unit; $Units")
        case None if upper.exists(unit => Varying.exists(unit.startsWith)) => Left(IntervalLength.Varies)
        case None =>
          Try(CatalystSqlParser.parseExpression(written.toString))
            .fold(_ => Left("Spark cannot read it as an interval"), IntervalLength.micros)
      }
    }
  }
}
