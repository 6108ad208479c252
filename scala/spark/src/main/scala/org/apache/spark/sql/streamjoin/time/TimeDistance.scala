package org.apache.spark.sql.streamjoin.time

import org.apache.spark.sql.catalyst.expressions.{Expression, Literal, TimestampAddInterval}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.DayTimeIntervalType

/** Times and the distances between them, as expressions of Spark. */
private[streamjoin] object TimeDistance {

  /** @param micros microseconds, negative for an earlier time */
  def later(time: Expression, micros: Long): Expression =
    if (micros == 0) time
    else
      TimestampAddInterval(
        time,
        Literal(micros, DayTimeIntervalType()),
        Some(SQLConf.get.sessionLocalTimeZone)
      )
}
