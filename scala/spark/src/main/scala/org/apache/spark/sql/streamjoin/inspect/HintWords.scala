package org.apache.spark.sql.streamjoin.inspect

import java.util.Locale

import org.apache.spark.sql.streamjoin.time.DurationText

/** How hints say numbers, durations and columns. */
private[inspect] object HintWords {
  private val Year = 31557600000L
  private val Units =
    Seq(86400000L -> "days", 3600000L -> "hours", 60000L -> "minutes", 1000L -> "seconds")

  /** A number of milliseconds, in whole units of its size. */
  def words(millis: Long): String =
    if (millis >= 2 * Year) s"${counted(millis / Year)} years" else DurationText.roughly(millis)

  /** At least so many milliseconds, as withWatermark takes them. */
  def roundedUp(millis: Long): String = {
    val (length, unit) = Units.find { case (length, _) => millis > 2 * length }.getOrElse(1000L -> "seconds")
    s"${math.max((millis + length - 1) / length, 1)} $unit"
  }

  def counted(number: Long): String = String.format(Locale.ROOT, "%,d", number)

  /** `all 60 rows of x`, `40 of 60 rows of x`. */
  def share(some: Long, all: Long, of: String): String =
    if (some == all) s"all ${counted(all)} $of" else s"${counted(some)} of ${counted(all)} $of"

  /** A column without the name of its input. */
  def plain(column: String): String = column.split('.').last
}
