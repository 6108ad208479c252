package org.apache.spark.sql.streamjoin.observe.read

import java.util.Locale

import org.apache.spark.sql.streamjoin.time.DurationText

/** How hints write numbers, durations and columns. */
private[read] object HintWords {
  private val Year = 31557600000L
  private val Units =
    Seq(86400000L -> "days", 3600000L -> "hours", 60000L -> "minutes", 1000L -> "seconds")

  /** A number of milliseconds, in whole units of its size. */
  def words(millis: Long): String =
    if (millis >= 2 * Year) s"${counted(millis / Year)} years" else DurationText.roughly(millis)

  /** A duration of at least this many milliseconds, in the format of withWatermark. */
  def roundedUp(millis: Long): String = {
    val (length, unit) = Units.find { case (length, _) => millis > 2 * length }.getOrElse(1000L -> "seconds")
    s"${math.max((millis + length - 1) / length, 1)} $unit"
  }

  /**
   * A duration of at least twice as many milliseconds, rounded to one of a few values so that the
   * advice is stable.
   */
  def ample(millis: Long): String =
    DurationText.of(Pauses.find(_ >= 2 * millis).getOrElse(Pauses.last) * 1000)

  private val Pauses = Seq(5L, 15L, 60L, 360L, 1440L, 10080L).map(_ * 60000)

  def counted(number: Long): String = String.format(Locale.ROOT, "%,d", number)

  /** `1 group`, `20 groups`. */
  def counted(number: Long, what: String): String = s"${counted(number)} $what${if (number == 1) "" else "s"}"

  /** `all 60 rows of x`, `40 of 60 rows of x`. */
  def share(some: Long, all: Long, of: String): String =
    if (some == all) s"all ${counted(all)} $of" else s"${counted(some)} of ${counted(all)} $of"

  /** A column without the name of its input. */
  def plain(column: String): String = column.split('.').last
}
