package org.apache.spark.sql.streamjoin.time

import java.time.ZoneId
import java.util.Locale

import org.apache.spark.sql.catalyst.expressions.{Left => _, Right => _, _}
import org.apache.spark.sql.catalyst.util.DateTimeConstants._
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.CalendarInterval

/**
 * An expression over event times as a sum: columns, each with a plus or a minus, and a constant in
 * microseconds.
 *
 * @param below
 *   microseconds by which the value may be lower than the sum, if clocks change or numbers are
 *   rounded
 * @param above
 *   microseconds by which it may be higher
 */
final private[streamjoin] case class LinearTime(
    plus: Seq[Attribute],
    minus: Seq[Attribute],
    constant: Long,
    below: Long,
    above: Long
) {
  def +(that: LinearTime): LinearTime =
    LinearTime(
      plus ++ that.plus,
      minus ++ that.minus,
      Math.addExact(constant, that.constant),
      Math.addExact(below, that.below),
      Math.addExact(above, that.above)
    )

  def unary_- : LinearTime = LinearTime(minus, plus, Math.negateExact(constant), above, below)

  def -(that: LinearTime): LinearTime = this + (-that)

  /** Whether the value always equals the sum. */
  def isExact: Boolean = below == 0 && above == 0

  def widened(below: Long, above: Long): LinearTime =
    copy(below = Math.addExact(this.below, below), above = Math.addExact(this.above, above))
}

private[streamjoin] object LinearTime {

  /** The reason why an expression is not such a sum. */
  sealed trait Problem

  /** A part of it varies from row to row, or is not a time. */
  final case class Varies(part: Expression) extends Problem

  /** Months and years have no fixed length. */
  final case class Months(part: Expression) extends Problem

  type Result = Either[Problem, LinearTime]

  /** Differences of timestamps are bounded by less than ten years. */
  private val LongestDifference = 3653 * MICROS_PER_DAY

  private[time] val Zero = LinearTime(Nil, Nil, 0L, 0L, 0L)

  def of(expression: Expression): Result = exactly(expression)(sum)

  /**
   * Both sides of a comparison of times, or of numbers of seconds, milliseconds or microseconds.
   */
  def ofBoth(greater: Expression, less: Expression): (Result, Result) =
    if (!greater.dataType.isInstanceOf[NumericType]) (of(greater), of(less))
    else
      NumericTime.unit(greater, less) match {
        case Some(unit) =>
          (exactly(greater)(NumericTime.sum(_, unit)), exactly(less)(NumericTime.sum(_, unit)))
        case None => (Left(Varies(greater)), Left(Varies(less)))
      }

  /** A sum that overflows a long is not usable. */
  private def exactly(expression: Expression)(sum: Expression => Result): Result =
    try sum(expression)
    catch { case _: ArithmeticException => Left(Varies(expression)) }

  private def sum(expression: Expression): Result = expression match {
    case attribute: Attribute if attribute.dataType == TimestampType =>
      Right(Zero.copy(plus = Seq(attribute)))
    case ApartTime(of, least, most) =>
      Right(Zero.copy(plus = Seq(of), constant = least, above = Math.subtractExact(most, least)))
    case Alias(child, _) => sum(child)
    case KnownNotNull(child) => sum(child)
    case KnownNullable(child) => sum(child)
    case Cast(child, TimestampType, _, _) if child.dataType == TimestampType => sum(child)
    case Truncated(start, longest) => sum(start).map(_.widened(longest - 1, 0L))
    case truncated: TruncTimestamp => Left(Months(truncated))
    // A date stands for the instant at which it starts.
    case Cast(child, TimestampType, _, _) if child.dataType == DateType => sum(child)
    case DateAdd(start, days) => movedByDays(start, days, _ + _)
    case DateSub(start, days) => movedByDays(start, days, _ - _)
    case replaced: RuntimeReplaceable => sum(replaced.replacement)
    case foldable if foldable.foldable => constant(foldable)
    case add @ TimestampAddInterval(start, interval, _) =>
      both(start, interval)(_ + _).map(moved(add, interval, _))
    case TimestampAddYMInterval(_, interval, _) => Left(Months(interval))
    case add: TimestampAdd => timestampAdd(add)
    case subtract @ SubtractTimestamps(end, start, _, _) =>
      // A difference of local times: the zone's offsets matter, no matter how close the two are.
      both(end, start)(_ - _).map(widened(subtract, LongestDifference, _))
    case Add(left, right, _) if isInterval(expression) => both(left, right)(_ + _)
    case Subtract(left, right, _) if isInterval(expression) => both(left, right)(_ - _)
    case UnaryMinus(child, _) if isInterval(expression) => sum(child).map(-_)
    case _ if expression.dataType.isInstanceOf[YearMonthIntervalType] => Left(Months(expression))
    case _ => Left(Varies(expression))
  }

  private def both(left: Expression, right: Expression)(f: (LinearTime, LinearTime) => LinearTime): Result =
    for { l <- sum(left); r <- sum(right) } yield f(l, r)

  def isInterval(expression: Expression): Boolean = expression.dataType match {
    case _: DayTimeIntervalType | CalendarIntervalType => true
    case _ => false
  }

  private def constant(expression: Expression): Result = (expression.dataType, expression.eval()) match {
    case (_, null) => Left(Varies(expression))
    case (TimestampType, micros: Long) => Right(Zero.copy(constant = micros))
    case (_: DayTimeIntervalType, micros: Long) => Right(Zero.copy(constant = micros))
    case (_: YearMonthIntervalType, _) => Left(Months(expression))
    case (CalendarIntervalType, interval: CalendarInterval) =>
      if (interval.months != 0) Left(Months(expression))
      else
        Right(
          Zero.copy(constant =
            Math.addExact(Math.multiplyExact(interval.days.toLong, MICROS_PER_DAY), interval.microseconds)
          )
        )
    case _ => Left(Varies(expression))
  }

  /** Whole days are added on the local clock; less than a day is not. */
  private def moved(add: TimeZoneAwareExpression, interval: Expression, sum: LinearTime): LinearTime =
    if (!interval.foldable) widened(add, LongestDifference, sum)
    else {
      val days = interval.eval() match {
        case calendar: CalendarInterval => math.abs(calendar.days.toLong)
        case micros: Long => math.abs(micros / MICROS_PER_DAY)
        case _ => 0L
      }
      if (days == 0) sum else widened(add, Math.multiplyExact(days, MICROS_PER_DAY), sum)
    }

  private def movedByDays(
      start: Expression,
      days: Expression,
      moved: (LinearTime, LinearTime) => LinearTime
  ): Result =
    if (!days.foldable || days.eval() == null) Left(Varies(days))
    else {
      val length = Math.multiplyExact(days.eval().asInstanceOf[Number].longValue, MICROS_PER_DAY)
      sum(start).map { from =>
        widened(ClockChanges.sessionZone, math.abs(length), moved(from, Zero.copy(constant = length)))
      }
    }

  /** A number of days or of other units between two times, on the local clock. */
  private[time] def between(end: Expression, start: Expression, zone: ZoneId): Result =
    both(end, start)(_ - _).map(widened(zone, LongestDifference, _))

  private def timestampAdd(add: TimestampAdd): Result =
    if (!add.quantity.foldable || add.quantity.eval() == null) Left(Varies(add.quantity))
    else {
      val unit = add.unit.toUpperCase(Locale.ROOT) match {
        case "MICROSECOND" => Right(1L)
        case "MILLISECOND" => Right(MICROS_PER_MILLIS)
        case "SECOND" => Right(MICROS_PER_SECOND)
        case "MINUTE" => Right(MICROS_PER_MINUTE)
        case "HOUR" => Right(MICROS_PER_HOUR)
        case "DAY" | "DAYOFYEAR" => Right(MICROS_PER_DAY)
        case "WEEK" => Right(MICROS_PER_DAY * DAYS_PER_WEEK)
        case _ => Left(Months(add))
      }
      for {
        length <- unit
        start <- sum(add.timestamp)
      } yield {
        val quantity = add.quantity.eval().asInstanceOf[Number].longValue
        val constant = Math.multiplyExact(quantity, length)
        val result = start + Zero.copy(constant = constant)
        if (length >= MICROS_PER_DAY) widened(add, math.abs(constant), result) else result
      }
    }

  private def widened(at: TimeZoneAwareExpression, span: Long, sum: LinearTime): LinearTime =
    widened(at.zoneId, span, sum)

  private def widened(zone: ZoneId, span: Long, sum: LinearTime): LinearTime = {
    // Local time may run a day ahead of the span, if the zone jumped over the date line.
    val change = ClockChanges.largest(zone, Math.addExact(span, MICROS_PER_DAY))
    sum.widened(change, change)
  }
}
