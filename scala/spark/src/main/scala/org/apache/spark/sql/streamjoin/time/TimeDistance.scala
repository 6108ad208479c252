package org.apache.spark.sql.streamjoin.time

import org.apache.spark.sql.catalyst.expressions.{Expression, Literal, TimestampAdd, TimestampAddInterval}
import org.apache.spark.sql.catalyst.util.DateTimeConstants.MICROS_PER_DAY
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.DayTimeIntervalType

/** Times and the distances between them, as expressions of Spark. */
private[streamjoin] object TimeDistance {

  /**
   * Days are those of the session's time zone, as in all of Spark's arithmetic with intervals.
   *
   * @param micros
   *   microseconds, negative for an earlier time
   */
  def later(time: Expression, micros: Long): Expression =
    if (micros == 0) time
    else
      TimestampAddInterval(
        time,
        Literal(micros, DayTimeIntervalType()),
        Some(SQLConf.get.sessionLocalTimeZone)
      )

  /** To the microsecond, also where clocks change in between. */
  def exactlyLater(time: Expression, micros: Long): Expression =
    if (math.abs(micros) < MICROS_PER_DAY) later(time, micros)
    else TimestampAdd("MICROSECOND", Literal(micros), time, Some(SQLConf.get.sessionLocalTimeZone))
}
