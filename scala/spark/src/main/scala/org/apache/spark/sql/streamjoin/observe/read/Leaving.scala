package org.apache.spark.sql.streamjoin.observe.read

import org.apache.spark.sql.streamjoin.checkpoint.{InputOutline, KeepingLimit, OperatorOutline}

import streamjoin.core.Watermark

/**
 * When a row leaves the state: the limit that will be reached first, given the current watermarks.
 *
 * @param watermarks
 *   by watermark key, in microseconds; none if undefined
 */
final private[streamjoin] class Leaving(
    operator: OperatorOutline,
    input: InputOutline,
    watermarks: Int => Option[Long]
) extends Serializable {
  import Leaving._

  /** @param time of the row, by expiring time */
  def of(time: Int => Long): Option[Awaited] =
    input.limits
      .map(limit => limit.until.map(awaited(_, time(limit.time))).maxBy(missing))
      .minByOption(missing)

  private def awaited(reached: KeepingLimit.Reached, time: Long): Awaited = Awaited(
    operator.columns(reached.key),
    Watermark.postponed(time, -reached.postpone),
    watermarks(reached.key)
  )

  /** How far the watermark is from the limit. */
  private def missing(awaited: Awaited): BigInt =
    awaited.now.fold(BigInt(Long.MaxValue) * 4)(now => BigInt(awaited.after) - now)
}

private[streamjoin] object Leaving {

  /**
   * A row stays until the watermark of a column is later than a time.
   *
   * @param column
   *   event-time column, as users write it
   * @param after
   *   in microseconds
   * @param now
   *   the watermark, in microseconds
   */
  final case class Awaited(column: String, after: Long, now: Option[Long])
}
