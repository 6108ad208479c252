package org.apache.spark.sql.streamjoin.time

import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.catalyst.util.DateTimeConstants.MICROS_PER_DAY
import org.apache.spark.sql.types.{CalendarIntervalType, DayTimeIntervalType, YearMonthIntervalType}
import org.apache.spark.unsafe.types.CalendarInterval

/** The lengths of intervals. */
private[streamjoin] object IntervalLength {
  val Varies = "the length of months and years varies"

  /** The length of a constant interval in microseconds, or why it has none. */
  def micros(interval: Expression): Either[String, Long] =
    if (!interval.resolved || !interval.foldable) Left("it is not constant")
    else
      (interval.dataType, interval.eval()) match {
        case (_: DayTimeIntervalType, micros: Long) => Right(micros)
        case (_: YearMonthIntervalType, _) => Left(Varies)
        case (CalendarIntervalType, calendar: CalendarInterval) =>
          if (calendar.months != 0) Left(Varies)
          else Right(calendar.days * MICROS_PER_DAY + calendar.microseconds)
        case _ => Left("it is not an interval")
      }
}
