package org.apache.spark.sql.streamjoin.time

import scala.util.control.NonFatal

import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.catalyst.util.DateTimeConstants._
import org.apache.spark.sql.catalyst.util.IntervalUtils
import org.apache.spark.sql.streamjoin.base.StreamJoinErrors
import org.apache.spark.sql.types.{CalendarIntervalType, DayTimeIntervalType, YearMonthIntervalType}
import org.apache.spark.unsafe.types.CalendarInterval

/** Durations as users write and read them: `1 hour 30 minutes`. */
private[streamjoin] object DurationText {

  private val Longest = 1000L * 366 * MICROS_PER_DAY

  /**
   * The length of a duration, in microseconds.
   *
   * @param call
   *   API call that the user wrote, and its argument, for errors
   */
  def length(call: String, argument: String, text: String): Long = {
    def reject(reason: String) = throw rejected(call, argument, text, reason)
    val interval =
      try IntervalUtils.fromIntervalString(text)
      catch { case NonFatal(_) => reject("it is not a number followed by a unit") }
    if (interval.months != 0) reject("the length of months and years varies; write it in days")
    // Watermarks are kept in microseconds, as event times are.
    val micros = BigInt(interval.days) * MICROS_PER_DAY + interval.microseconds
    if (micros.abs > Longest) reject("it is longer than a thousand years")
    micros.toLong
  }

  def rejected(call: String, argument: String, text: String, reason: String): AnalysisException =
    StreamJoinErrors.analysis(
      "STREAMJOIN_DURATION",
      "call" -> call,
      "argument" -> argument,
      "duration" -> s"'$text'",
      "reason" -> reason
    )

  private val Units = Seq(
    MICROS_PER_DAY -> "day",
    MICROS_PER_HOUR -> "hour",
    MICROS_PER_MINUTE -> "minute",
    MICROS_PER_SECOND -> "second",
    MICROS_PER_MILLIS -> "millisecond",
    1L -> "microsecond"
  )

  /** A number of microseconds in words, without rounding. */
  def of(micros: Long): String = {
    val (parts, _) = Units.foldLeft((Seq.empty[String], micros)) { case ((done, rest), (length, unit)) =>
      val count = rest / length
      (if (count == 0) done else done :+ s"$count $unit${if (count == 1) "" else "s"}", rest % length)
    }
    if (parts.isEmpty) "0 seconds" else parts.mkString(" ")
  }

  /** A number of milliseconds in words, in whole units of its size. */
  def roughly(millis: Long): String = {
    val micros = millis * MICROS_PER_MILLIS
    val unit = Units.collectFirst { case (length, _) if micros >= length => length }.getOrElse(1L)
    of(micros / unit * unit)
  }
}

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
