package org.apache.spark.sql.streamjoin.analysis

import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.prop.TableDrivenPropertyChecks

import org.apache.spark.sql.catalyst.expressions.{Left => _, Right => _, _}
import org.apache.spark.sql.catalyst.util.DateTimeConstants._
import org.apache.spark.sql.streamjoin.time.LinearTime
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.CalendarInterval

class LinearTimeSuite extends AnyFunSuite with TableDrivenPropertyChecks {
  private val a = AttributeReference("a", TimestampType)()
  private val b = AttributeReference("b", TimestampType)()
  private val c = AttributeReference("c", TimestampType)()
  private val pause = AttributeReference("pause", DayTimeIntervalType())()
  private val number = AttributeReference("number", LongType)()

  private val Utc = Some("UTC")
  private val Berlin = Some("Europe/Berlin")
  private val Day = MICROS_PER_DAY
  private val Hour = MICROS_PER_HOUR

  private def ansi(micros: Long): Literal = Literal(micros, DayTimeIntervalType())
  private def calendar(months: Int, days: Int, micros: Long): Literal =
    Literal(new CalendarInterval(months, days, micros), CalendarIntervalType)
  private def plus(time: Expression, interval: Expression, zone: Option[String] = Utc): Expression =
    TimestampAddInterval(time, interval, zone)
  private def minus(end: Expression, start: Expression, zone: Option[String] = Utc): Expression =
    SubtractTimestamps(end, start, legacyInterval = false, zone)
  private def add(unit: String, quantity: Long, time: Expression, zone: Option[String] = Utc): Expression =
    TimestampAdd(unit, Literal(quantity), time, zone)

  private def sum(plus: Seq[Attribute], minus: Seq[Attribute], constant: Long, slack: Long = 0L): LinearTime =
    LinearTime(plus, minus, constant, slack, slack)

  test("expressions of columns and constants become sums") {
    val expected = Table[Expression, LinearTime](
      ("expression", "sum"),
      (a, sum(Seq(a), Nil, 0)),
      (Literal(5L, TimestampType), sum(Nil, Nil, 5)),
      (ansi(7), sum(Nil, Nil, 7)),
      (calendar(0, 0, 7), sum(Nil, Nil, 7)),
      (calendar(0, -2, 7), sum(Nil, Nil, 7 - 2 * Day)),
      (plus(a, ansi(-1)), sum(Seq(a), Nil, -1)),
      (plus(plus(a, ansi(Hour)), ansi(-2 * Hour)), sum(Seq(a), Nil, -Hour)),
      (plus(a, calendar(0, 1, 1)), sum(Seq(a), Nil, Day + 1)),
      (minus(a, b), sum(Seq(a), Seq(b), 0)),
      (minus(plus(a, ansi(3)), b), sum(Seq(a), Seq(b), 3)),
      (UnaryMinus(minus(a, b)), sum(Seq(b), Seq(a), 0)),
      (Add(minus(a, b), ansi(4)), sum(Seq(a), Seq(b), 4)),
      (Subtract(minus(a, b), ansi(4)), sum(Seq(a), Seq(b), -4)),
      (Cast(a, TimestampType, Utc), sum(Seq(a), Nil, 0)),
      (KnownNotNull(a), sum(Seq(a), Nil, 0)),
      (Alias(a, "x")(), sum(Seq(a), Nil, 0))
    )
    forAll(expected)((expression, sum) => assert(LinearTime.of(expression) == Right(sum)))
  }

  test("timestampadd is understood in every unit up to a week, in either case") {
    val units = Table(
      ("unit", "micros"),
      ("MICROSECOND", 1L),
      ("MILLISECOND", 1000L),
      ("SECOND", 1000000L),
      ("MINUTE", 60000000L),
      ("HOUR", Hour),
      ("DAY", Day),
      ("DAYOFYEAR", Day),
      ("WEEK", 7 * Day)
    )
    forAll(units) { (unit, micros) =>
      Seq(unit, unit.toLowerCase).foreach { spelled =>
        assert(LinearTime.of(add(spelled, 3, a)) == Right(sum(Seq(a), Nil, 3 * micros)), spelled)
        assert(LinearTime.of(add(spelled, -3, a)) == Right(sum(Seq(a), Nil, -3 * micros)), spelled)
      }
    }
    Seq("MONTH", "QUARTER", "YEAR", "year").foreach { unit =>
      assert(LinearTime.of(add(unit, 1, a)).left.exists(_.isInstanceOf[LinearTime.Months]), unit)
    }
    assert(LinearTime.of(TimestampAdd("HOUR", number, a, Utc)) == Left(LinearTime.Varies(number)))
  }

  test("intervals of a day or more get slack where clocks change, shorter ones do not") {
    val slacks = Table[Expression, Long](
      ("expression", "slack"),
      (plus(a, ansi(Day), Berlin), Hour),
      (plus(a, ansi(-Day), Berlin), Hour),
      (plus(a, ansi(Day - 1), Berlin), 0),
      (plus(a, ansi(1 - Day), Berlin), 0),
      (plus(a, calendar(0, 1, 0), Berlin), Hour),
      // A calendar interval of 24 hours adds hours, not a day.
      (plus(a, calendar(0, 0, Day), Berlin), 0),
      (add("DAY", 1, a, Berlin), Hour),
      (add("WEEK", 1, a, Berlin), Hour),
      (add("HOUR", 24, a, Berlin), 0),
      (plus(plus(a, ansi(Day), Berlin), ansi(Day), Berlin), 2 * Hour),
      (plus(a, ansi(Day), Utc), 0),
      (minus(a, b, Utc), 0)
    )
    forAll(slacks)((expression, slack) =>
      assert(LinearTime.of(expression).map(sum => (sum.below, sum.above)) == Right((slack, slack)))
    )
    // Local times are compared, and two instants an hour apart may have the same one.
    assert(LinearTime.of(minus(a, b, Berlin)).exists(sum => sum.below >= Hour && sum.above >= Hour))
  }

  test("varying intervals, nulls and months are not sums") {
    val none = Table[Expression, LinearTime.Problem](
      ("expression", "problem"),
      (pause, LinearTime.Varies(pause)),
      (plus(a, pause), LinearTime.Varies(pause)),
      (number, LinearTime.Varies(number)),
      (Literal(null, TimestampType), LinearTime.Varies(Literal(null, TimestampType))),
      (plus(a, calendar(1, 0, 0)), LinearTime.Months(calendar(1, 0, 0))),
      (
        TimestampAddYMInterval(a, Literal(1, YearMonthIntervalType()), Utc),
        LinearTime.Months(Literal(1, YearMonthIntervalType()))
      )
    )
    forAll(none)((expression, problem) => assert(LinearTime.of(expression) == Left(problem)))
    val nested = plus(a, Multiply(minus(b, c), Literal(2L)))
    assert(LinearTime.of(nested).isLeft)
  }

  test("the difference of two columns can be added to a third") {
    // A sum, but not of one column against another: no bound, but no crash either.
    val result = LinearTime.of(plus(a, minus(b, c)))
    assert(result.forall(found => found.plus.size == 2 && found.minus == Seq(c)))
    // The difference may include clock changes.
    assert(
      LinearTime
        .of(plus(a, minus(b, c, Berlin), Berlin))
        .forall(sum => sum.below >= Hour && sum.above >= Hour)
    )
  }

  test("an expression that overflows is not a sum") {
    assert(LinearTime.of(plus(plus(a, ansi(Long.MaxValue)), ansi(1))).isLeft)
    assert(LinearTime.of(add("HOUR", Long.MaxValue, a)).isLeft)
    assert(LinearTime.of(UnaryMinus(ansi(Long.MinValue), failOnError = true)).isLeft)
    assert(LinearTime.of(calendar(0, Int.MaxValue, Long.MaxValue)).isLeft)
  }

  test("sums can be subtracted and negated, and their slack adds up") {
    val left = sum(Seq(a), Nil, 5, slack = 1)
    val right = sum(Seq(b), Nil, 3, slack = 2)
    assert(left - right == sum(Seq(a), Seq(b), 2, slack = 3))
    assert(-(left - right) == sum(Seq(b), Seq(a), -2, slack = 3))
  }
}
