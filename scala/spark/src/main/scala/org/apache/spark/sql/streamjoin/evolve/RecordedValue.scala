package org.apache.spark.sql.streamjoin.evolve

import com.fasterxml.jackson.databind.JsonNode

import org.apache.spark.sql.streamjoin.analysis.EquiKeys
import org.apache.spark.sql.streamjoin.base.StreamJoinConf
import org.apache.spark.sql.streamjoin.checkpoint.JsonProperty
import org.apache.spark.sql.streamjoin.time.DurationText

/**
 * A value that the rows of a side carry, and by which they expire.
 *
 * @param key
 *   its key, after the watermark keys
 * @param zone
 *   time zone in which it is computed, if it depends on one
 * @param beyond
 *   what happens to a row whose value is further away than the longest lifetime
 * @param time
 *   watermark key of the event time from which the longest lifetime counts, if there is one
 * @param max
 *   the longest lifetime, in microseconds
 * @param columns
 *   names of the columns from which it is computed
 */
final private[streamjoin] case class RecordedValue(
    key: Int,
    zone: String,
    beyond: String,
    time: Option[Int],
    max: Option[Long],
    columns: Seq[String] = Nil
) {
  def cuts: Boolean = beyond == StreamJoinConf.Cut

  /**
   * Whether the rows in state carry what they would carry now, and none is beyond the limit.
   *
   * @param before
   *   the same value in the query that has stored them
   * @param counts
   *   whether the limit counts from the same event time
   */
  def isStoredBy(before: RecordedValue, counts: Boolean): Boolean =
    if (cuts || before.cuts) cuts == before.cuts && counts && max == before.max
    else max.forall(now => counts && before.max.exists(_ <= now))

  /** Whether a row may stay longer than with `before`, which has cut its value. */
  def isLongerThan(before: RecordedValue, counts: Boolean): Boolean =
    before.cuts && (!counts || max.forall(now => before.max.forall(now > _)))

  def inWords(times: Int => String): String = {
    val limit =
      for (key <- time; micros <- max)
        yield s", ${if (cuts) "cut" else "at most"} ${DurationText.of(micros)} after ${times(key)}"
    val in = Some(zone).filter(_ != EquiKeys.NoZone).fold("")(name => s", in time zone $name")
    limit.getOrElse(", without a limit") + in
  }

  def json: String = {
    val node = JsonProperty.newObject().put("key", key).put("zone", zone).put("beyond", beyond)
    time.foreach(node.put("time", _))
    max.foreach(node.put("maxMicros", _))
    JsonProperty.putTexts(node, "columns", columns)
    node.toString
  }
}

private[streamjoin] object RecordedValue {
  def of(json: JsonNode): RecordedValue = RecordedValue(
    json.path("key").asInt,
    json.path("zone").asText,
    json.path("beyond").asText,
    Option(json.get("time")).map(_.asInt),
    Option(json.get("maxMicros")).map(_.asLong),
    JsonProperty.elements(json.path("columns")).map(_.asText)
  )
}
