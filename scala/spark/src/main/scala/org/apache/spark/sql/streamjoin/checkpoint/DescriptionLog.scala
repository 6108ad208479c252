package org.apache.spark.sql.streamjoin.checkpoint

import java.time.ZoneId

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.ObjectNode
import org.apache.hadoop.fs.Path

import org.apache.spark.sql.catalyst.util.DateTimeUtils
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streamjoin.analysis.NormalForm
import org.apache.spark.sql.streamjoin.base.{JsonLog, StreamJoinErrors}
import org.apache.spark.sql.{AnalysisException, SparkSession}

/**
 * What an operator or a join is, as texts: it must not change while a checkpoint is in use.
 *
 * @param zone
 *   time zone of the session that recorded it
 * @param partitions
 *   number of partitions of an operator with state at the start; it never changes, because rows
 *   stay in the store of their partition
 */
final private[streamjoin] case class Description(
    kind: String,
    properties: Map[String, String],
    zone: Option[String] = None,
    partitions: Option[Int] = None
) {
  import Description._

  def recordedNow: Description = copy(zone = Some(SessionZone.current))

  private def all: Map[String, String] = properties + (KindKey -> kind)

  /**
   * The first property that both have, with another value: its name, and what it was and is. A
   * record of an older version may lack a property.
   */
  def difference(now: Description): Option[(String, String, String)] =
    (for {
      (name, is) <- ((KindKey -> now.kind) +: now.properties.toSeq.sorted).iterator
      was <- all.get(name) if !SessionZone.isSame(was, zone, is)
    } yield (name, was, is)).nextOption()

  /** With the properties that only `now` has; none if it has them all. */
  def completedBy(now: Description): Option[Description] = {
    val missing = now.properties -- properties.keys
    Option.when(missing.nonEmpty)(copy(properties = properties ++ missing))
  }
}

private[streamjoin] object Description {
  private[checkpoint] val KindKey = "kind"
  private[checkpoint] val PartitionsKey = "partitions"
}

/** A folder of the checkpoint with a description in each file. */
abstract private[streamjoin] class DescriptionLog(session: SparkSession, checkpoint: Path, directory: String)
    extends JsonLog[Description](session, checkpoint, directory) {
  import Description._

  override protected def toJson(entry: Description, root: ObjectNode): Unit = {
    root.put(KindKey, entry.kind)
    entry.partitions.foreach(root.put(PartitionsKey, _))
    entry.zone.foreach(root.put(SessionZone.Key, _))
    entry.properties.toSeq.sorted.foreach { case (name, value) => root.put(name, value) }
  }

  override protected def fromJson(root: JsonNode): Description = {
    val texts =
      root.properties().asScala.filter(_.getKey != "version").map(e => e.getKey -> e.getValue.asText).toMap
    Description(
      texts.getOrElse(KindKey, throw unreadable(s"it has no $KindKey")),
      texts -- Seq(KindKey, PartitionsKey, SessionZone.Key),
      texts.get(SessionZone.Key),
      texts.get(PartitionsKey).flatMap(_.toIntOption)
    )
  }

  /** @throws org.apache.spark.sql.AnalysisException for the first property that has changed */
  protected def verify(before: Description, now: Description): Unit =
    before.difference(now).foreach { case (name, was, is) =>
      throw DescriptionLog.changed(checkpoint, name, was, is)
    }

  /** The same; then records the properties that an older version did not. */
  protected def verifyAndComplete(number: Long, before: Description, now: Description): Unit = {
    verify(before, now)
    before.completedBy(now).foreach(replace(number, _))
  }
}

private[streamjoin] object DescriptionLog {

  /** The error for a property that has changed. */
  def changed(checkpoint: Path, what: String, was: String, is: String): AnalysisException =
    StreamJoinErrors.analysis(
      "STREAMJOIN_CHECKPOINT_CHANGED",
      "checkpoint" -> checkpoint.toString,
      "what" -> what,
      "was" -> was,
      "is" -> is
    )
}

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
