package org.apache.spark.sql.streamjoin.time

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.util.DateTimeConstants.MICROS_PER_DAY
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.DayTimeIntervalType

/** Builds Spark expressions for times at a distance from each other. */
private[streamjoin] object TimeDistance {

  /**
   * Days are those of the session's time zone, as in all of Spark's interval arithmetic.
   *
   * @param micros
   *   distance in microseconds, negative for an earlier time
   */
  def later(time: Expression, micros: Long): Expression =
    if (micros == 0) time
    else
      TimestampAddInterval(
        time,
        Literal(micros, DayTimeIntervalType()),
        Some(SQLConf.get.sessionLocalTimeZone)
      )

  /**
   * `least <= right - left <= greatest`, with days of the session's time zone.
   *
   * @param least
   *   in microseconds, as `greatest`
   */
  def within(left: Expression, right: Expression, least: Long, greatest: Long): Expression = And(
    GreaterThanOrEqual(right, later(left, least)),
    GreaterThanOrEqual(left, later(right, -greatest))
  )

  /** Exact to the microsecond, even if clocks change in between. */
  def exactlyLater(time: Expression, micros: Long): Expression =
    if (math.abs(micros) < MICROS_PER_DAY) later(time, micros)
    else TimestampAdd("MICROSECOND", Literal(micros), time, Some(SQLConf.get.sessionLocalTimeZone))
}
