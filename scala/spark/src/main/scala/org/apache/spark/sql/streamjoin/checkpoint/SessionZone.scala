package org.apache.spark.sql.streamjoin.checkpoint

import java.time.ZoneId

import org.apache.spark.sql.catalyst.util.DateTimeUtils
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streamjoin.analysis.NormalForm

/**
 * The session time zone, stored with a description in the checkpoint. Spark does not store it: a
 * query that restarts in another zone goes on, and takes `TIMESTAMP '2026-01-01 00:00:00'` as that
 * time there. The condition is the same, but means other instants.
 */
private[streamjoin] object SessionZone {
  val Key = "session_time_zone"

  def current: String = SQLConf.get.sessionLocalTimeZone

  /**
   * A recorded text means the same as a text of this session.
   *
   * @param recorded
   *   zone of the recorded text; none if an older version started the query
   */
  def isSame(was: String, recorded: Option[String], is: String): Boolean =
    was == is || recorded.exists { zone =>
      NormalForm.areEqual(was, zoneId(zone), is, zoneId(current))
    }

  private def zoneId(zone: String): ZoneId = DateTimeUtils.getZoneId(zone)
}
