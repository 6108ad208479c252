package org.apache.spark.sql.streamjoin.operators

import java.time.ZoneId

import org.apache.spark.sql.catalyst.util.DateTimeUtils
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streamjoin.analysis.NormalForm

/**
 * The session's time zone beside a description in the checkpoint. Spark keeps it nowhere: a query
 * that starts again in another zone goes on, with `TIMESTAMP '2026-01-01 00:00:00'` as that time
 * there. It is the same condition, with other instants.
 */
private[operators] object SessionZone {
  val Key = "session_time_zone"

  def current: String = SQLConf.get.sessionLocalTimeZone

  /**
   * What was recorded says the same as a text of this session.
   *
   * @param recorded
   *   the zone; none where an older version has begun the query
   */
  def isSame(was: String, recorded: Option[String], is: String): Boolean =
    was == is || recorded.exists { zone =>
      NormalForm.areEqual(was, zoneId(zone), is, zoneId(current))
    }

  private def zoneId(zone: String): ZoneId = DateTimeUtils.getZoneId(zone)
}
