package org.apache.spark.sql.streamjoin.checkpoint

import java.time.ZoneId

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.ObjectNode
import org.apache.commons.codec.digest.DigestUtils
import org.apache.hadoop.fs.Path

import org.apache.spark.sql.catalyst.util.DateTimeUtils
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streamjoin.analysis.NormalForm
import org.apache.spark.sql.streamjoin.base.{JsonLog, StreamJoinErrors}
import org.apache.spark.sql.{AnalysisException, SparkSession}

/**
 * The description of an operator or a join, as text: it must not change while a checkpoint is in
 * use.
 *
 * @param zone
 *   time zone of the session that recorded it
 * @param generations
 *   of an operator with state, the oldest first: where its state has been
 * @param derived
 *   what follows from the properties, for programs; it is not compared
 * @param changed
 *   the first batch of a changed query, and the description from then on
 * @param takenOver
 *   of an operator whose first generation is the state of a join of Spark's
 * @param added
 *   of an operator that was added to a running query: its first batch. Its first generation is the
 *   empty state.
 * @param removed
 *   of an operator that was removed from a running query: the first batch without it
 */
final private[streamjoin] case class Description(
    kind: String,
    properties: Map[String, String],
    zone: Option[String] = None,
    generations: Seq[Generation] = Nil,
    derived: Set[String] = Set.empty,
    changed: Option[(Long, Description)] = None,
    takenOver: Option[TakenOver] = None,
    added: Option[Long] = None,
    removed: Option[Long] = None
) {
  import Description._

  def recordedNow: Description = copy(zone = Some(SessionZone.current))

  /**
   * The description that counts before a batch. A change that begins with the batch belongs to an
   * attempt that has failed.
   */
  def before(batch: Long): Description = changed match {
    case Some((from, next)) if from < batch =>
      next.copy(
        generations = generations,
        takenOver = takenOver,
        added = added,
        removed = removed.filter(_ < batch)
      )
    case _ => copy(changed = None, removed = removed.filter(_ < batch))
  }

  /** Its first batch. */
  def begins: Long = added.getOrElse(0L)

  /** Whether the operator is part of the query that has committed a batch. */
  def isPartOf(batch: Long): Boolean = begins <= batch && removed.forall(_ > batch)

  /** The description of a query that is changed from a batch on. */
  def changedBy(now: Description, from: Long): Description =
    copy(changed = Some(from -> now.recordedNow.copy(generations = Nil, derived = Set.empty)))

  /** Identifies what the rows in state mean: equal texts and settings give equal rows. */
  def meaning: String =
    DigestUtils
      .sha256Hex((properties.toSeq.sorted :+ (SessionZone.Key -> SessionZone.current)).mkString("\n"))
      .take(16)

  /** The properties that are compared. */
  def compared: Map[String, String] = properties -- derived

  private def all: Map[String, String] = properties + (KindKey -> kind)

  /**
   * The first property that differs: its name, its old and its new value. A record of an older
   * version may lack a property.
   */
  def difference(now: Description): Option[(String, String, String)] =
    (for {
      (name, is) <- ((KindKey -> now.kind) +: now.compared.toSeq.sorted).iterator
      was <- all.get(name) if !SessionZone.isSame(was, zone, is)
    } yield (name, was, is)).nextOption()

  /**
   * The record with the properties that only `now` has, and with what it derives; none if it
   * already has all of them.
   */
  def completedBy(now: Description): Option[Description] = {
    val missing = now.properties.filter { case (name, is) =>
      if (now.derived(name)) !properties.get(name).contains(is) else !properties.contains(name)
    }
    Option.when(missing.nonEmpty)(copy(properties = properties ++ missing))
  }
}

private[streamjoin] object Description {
  private[checkpoint] val KindKey = "kind"
  private[checkpoint] val PartitionsKey = "partitions"
  private[checkpoint] val GenerationsKey = "rewritten"
  private[checkpoint] val ChangedKey = "changed"
  private[checkpoint] val TakenOverKey = "takenOver"
  private[checkpoint] val AddedKey = "added"
  private[checkpoint] val RemovedKey = "removed"

  /** What is stored next to the properties. */
  private[checkpoint] val Others = Set(
    "version",
    "from",
    KindKey,
    PartitionsKey,
    GenerationsKey,
    ChangedKey,
    TakenOverKey,
    AddedKey,
    RemovedKey,
    SessionZone.Key
  )
}

/** A folder of the checkpoint with one description per file. */
abstract private[streamjoin] class DescriptionLog(session: SparkSession, checkpoint: Path, directory: String)
    extends JsonLog[Description](session, checkpoint, directory) {
  import Description._

  override protected def toJson(entry: Description, root: ObjectNode): Unit = {
    root.put(KindKey, entry.kind)
    entry.generations.headOption.foreach(first => root.put(PartitionsKey, first.partitions))
    if (entry.generations.size > 1) {
      val rewritten = root.putArray(GenerationsKey)
      entry.generations.tail.foreach { generation =>
        val node = rewritten.addObject()
        node.put("from", generation.from).put(PartitionsKey, generation.partitions)
        generation.folder.foreach(node.put("folder", _))
        generation.provider.foreach(node.put("provider", _))
        generation.meaning.foreach(node.put("meaning", _))
        if (generation.storeIds.nonEmpty) {
          val ids = node.putArray("storeIds")
          generation.storeIds.foreach(ids.add)
        }
      }
    }
    entry.takenOver.foreach { taken =>
      root.putObject(TakenOverKey).put("operator", taken.operator).put("newestVersion", taken.newest)
    }
    entry.added.foreach(root.put(AddedKey, _))
    entry.removed.foreach(root.put(RemovedKey, _))
    entry.changed.foreach { case (from, next) =>
      val node = root.putObject(ChangedKey).put("from", from)
      node.put(KindKey, next.kind)
      putProperties(next, node)
    }
    putProperties(entry, root)
  }

  private def putProperties(entry: Description, root: ObjectNode): Unit = {
    entry.zone.foreach(root.put(SessionZone.Key, _))
    entry.properties.toSeq.sorted.foreach { case (name, value) => root.put(name, value) }
  }

  override protected def fromJson(root: JsonNode): Description = {
    val first = root.path(PartitionsKey).asText.toIntOption.map(Generation(0, _))
    described(root).copy(
      generations = first.toSeq ++ root.path(GenerationsKey).elements.asScala.map(generation),
      changed = Option(root.get(ChangedKey)).map(next => next.path("from").asLong -> described(next)),
      takenOver = Option(root.get(TakenOverKey)).map { taken =>
        TakenOver(taken.path("operator").asLong, taken.path("newestVersion").asLong)
      },
      added = Option(root.get(AddedKey)).map(_.asLong),
      removed = Option(root.get(RemovedKey)).map(_.asLong)
    )
  }

  private def described(node: JsonNode): Description = {
    val texts = node.properties().asScala.map(each => each.getKey -> each.getValue.asText).toMap
    Description(
      texts.getOrElse(KindKey, throw unreadable(s"it has no $KindKey")),
      texts -- Others,
      texts.get(SessionZone.Key)
    )
  }

  private def generation(node: JsonNode) = Generation(
    node.path("from").asLong,
    node.path(PartitionsKey).asInt,
    Option(node.get("folder")).map(_.asText),
    node.path("storeIds").elements.asScala.map(_.asText).toSeq,
    Option(node.get("provider")).map(_.asText),
    Option(node.get("meaning")).map(_.asText)
  )

  /** @throws org.apache.spark.sql.AnalysisException for the first property that has changed */
  protected def verify(before: Description, now: Description): Unit =
    before.difference(now).foreach { case (name, was, is) =>
      throw DescriptionLog.changed(checkpoint, name, was, is)
    }

  /** Checks the description, then records the properties that an older version did not record. */
  protected def verifyAndComplete(number: Long, before: Description, now: Description): Unit = {
    verify(before, now)
    before.completedBy(now).foreach(replace(number, _))
  }
}

private[streamjoin] object DescriptionLog {

  /** What to do about a change that is never accepted. */
  val Advice = "Restore the old query, or start the new one with a new checkpoint location."

  /**
   * The error for a property that has changed.
   *
   * @param state
   *   what would happen to the rows in state
   * @param results
   *   what would be known of the results
   */
  def changed(
      checkpoint: Path,
      what: String,
      was: String,
      is: String,
      state: String = "rejected",
      results: String = "none",
      advice: String = Advice
  ): AnalysisException =
    StreamJoinErrors.analysis(
      "STREAMJOIN_CHECKPOINT_CHANGED",
      "checkpoint" -> checkpoint.toString,
      "what" -> what,
      "was" -> was,
      "is" -> is,
      "state" -> state,
      "results" -> results,
      "advice" -> advice
    )
}

/**
 * The session time zone, stored with a description in the checkpoint. Spark does not store it: a
 * query that restarts in another zone continues, and interprets `TIMESTAMP '2026-01-01 00:00:00'`
 * in that zone. The text of the condition is the same, but it refers to other instants.
 */
private[streamjoin] object SessionZone {
  val Key = "session_time_zone"

  def current: String = SQLConf.get.sessionLocalTimeZone

  /**
   * Whether a recorded text means the same as a text of this session.
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
