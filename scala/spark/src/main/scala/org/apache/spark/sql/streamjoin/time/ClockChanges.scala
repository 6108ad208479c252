package org.apache.spark.sql.streamjoin.time

import java.time.zone.ZoneOffsetTransition
import java.time.{Instant, ZoneId}

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.catalyst.util.DateTimeUtils
import org.apache.spark.sql.internal.SQLConf

/**
 * How far a zone's clocks can shift during a period. Spark adds days to a `TIMESTAMP` on the local
 * clock (`DateTimeUtils.timestampAddDayTime`), and subtracts timestamps on it, so a "day" has 23 to
 * 25 hours when the zone changes its clocks.
 */
private[streamjoin] object ClockChanges {
  private val MicrosPerSecond = 1000000L

  /** Rules repeat every year; they are evaluated up to this time. */
  private val Horizon: Instant = Instant.parse("2100-01-01T00:00:00Z")

  /**
   * The largest difference between the zone's offsets at two instants that lie at most `span`
   * microseconds apart, in microseconds.
   */
  def largest(zone: ZoneId, span: Long): Long = {
    val changes = transitions(zone)
    val seconds = span / MicrosPerSecond + 1
    val differences = for {
      first <- changes.indices.iterator
      last <- Iterator
        .range(first, changes.size)
        .takeWhile(i => changes(i).toEpochSecond - changes(first).toEpochSecond <= seconds)
    } yield math.abs(
      changes(last).getOffsetAfter.getTotalSeconds - changes(first).getOffsetBefore.getTotalSeconds
    )
    differences.maxOption.getOrElse(0) * MicrosPerSecond
  }

  /**
   * The longest time over which a timestamp truncated to a minute or an hour may stay the same, in
   * microseconds. When clocks are set back, an hour repeats as another hour, unless it has already
   * begun.
   *
   * @param unit
   *   in microseconds
   */
  def longest(zone: ZoneId, unit: Long): Long = {
    val repeated = transitions(zone).collect {
      case change if change.isOverlap && change.getDateTimeAfter.toLocalTime.toNanoOfDay / 1000 % unit != 0 =>
        -change.getDuration.getSeconds * MicrosPerSecond
    }
    unit + repeated.maxOption.getOrElse(0L)
  }

  /** The zone for dates, which have none. */
  def sessionZone: ZoneId = DateTimeUtils.getZoneId(SQLConf.get.sessionLocalTimeZone)

  private def transitions(zone: ZoneId): IndexedSeq[ZoneOffsetTransition] = {
    val rules = zone.getRules
    val past = rules.getTransitions.asScala.toIndexedSeq
    val future = Iterator
      .iterate(rules.nextTransition(past.lastOption.map(_.getInstant).getOrElse(Instant.EPOCH)))(change =>
        rules.nextTransition(change.getInstant)
      )
      .takeWhile(change => change != null && change.getInstant.isBefore(Horizon))
    past ++ future
  }
}
