package org.apache.spark.sql.streamjoin.operators

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.ObjectNode
import org.apache.hadoop.fs.Path

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.streamjoin.base.JsonLog

/**
 * A join with arrangements, as text: it must not change while a checkpoint is in use. The join
 * keeps no state, but a row that it has emitted may be retracted later, and must then be the same
 * row.
 *
 * @param kind
 *   delta join or look-up
 */
final private[streamjoin] case class ArrangedJoin(kind: String, properties: Map[String, String])

/** @param zone time zone of the session that recorded the join */
final private[streamjoin] case class RecordedJoin(join: ArrangedJoin, zone: Option[String])

private[streamjoin] object ArrangedJoin {
  val Delta = "delta_join"
  val LookUp = "look_up"
}

/**
 * `<checkpoint>/arranged-joins/<n>`: the joins with arrangements of a query, in plan order, each
 * written before the first batch. A checkpoint that is older than this log gets one in its next
 * run.
 *
 * @param checkpoint
 *   root folder of the checkpoint
 */
final private[streamjoin] class ArrangedJoinLog(session: SparkSession, checkpoint: Path)
    extends JsonLog[RecordedJoin](session, checkpoint, ArrangedJoinLog.Directory) {
  import ArrangedJoinLog._

  override protected def version: Int = 1

  override protected def toJson(entry: RecordedJoin, root: ObjectNode): Unit = {
    root.put(KindKey, entry.join.kind)
    entry.zone.foreach(root.put(SessionZone.Key, _))
    entry.join.properties.toSeq.sorted.foreach { case (name, value) => root.put(name, value) }
  }

  override protected def fromJson(root: JsonNode): RecordedJoin = {
    val texts =
      root.properties().asScala.filter(_.getKey != "version").map(e => e.getKey -> e.getValue.asText).toMap
    val kind = texts.getOrElse(KindKey, throw unreadable(s"it has no $KindKey"))
    RecordedJoin(ArrangedJoin(kind, texts -- Seq(KindKey, SessionZone.Key)), texts.get(SessionZone.Key))
  }

  private def recorded: Seq[RecordedJoin] =
    Iterator.from(0).map(number => get(number.toLong)).takeWhile(_.isDefined).flatten.toSeq

  /**
   * Checks that the joins of the query are the recorded ones, if any are recorded.
   *
   * @throws org.apache.spark.sql.AnalysisException
   *   for the first join that differs
   */
  def verify(joins: Seq[ArrangedJoin]): Unit = verify(joins, recorded)

  private def verify(joins: Seq[ArrangedJoin], before: Seq[RecordedJoin]): Unit = if (before.nonEmpty) {
    for {
      (RecordedJoin(was, zone), is) <- before.zip(joins)
      (name, text) <- (is.properties + (KindKey -> is.kind)).toSeq.sorted
      old = (was.properties + (KindKey -> was.kind)).getOrElse(name, "nothing")
      if !SessionZone.isSame(old, zone, text)
    } throw OperatorLog.changed(checkpoint, name, old, text)
    if (before.size != joins.size)
      throw OperatorLog.changed(checkpoint, Number, before.size.toString, joins.size.toString)
  }

  /**
   * Called before the first batch of a run.
   *
   * @param isBegun
   *   whether a batch has been committed; until then, recorded joins do not count
   */
  def verifyOrRecord(joins: Seq[ArrangedJoin], isBegun: Boolean): Unit = {
    val (before, now) = (recorded, joins.map(RecordedJoin(_, Some(SessionZone.current))))
    if (isBegun && before.nonEmpty) verify(joins, before)
    else if (before != now) {
      // Entry 0 last: without it the log counts as empty.
      before.indices.reverse.foreach(number => fileManager.delete(batchIdToPath(number.toLong)))
      now.zipWithIndex.reverse.foreach { case (join, number) => add(number.toLong, join) }
    }
  }
}

private[streamjoin] object ArrangedJoinLog {
  val Directory = "arranged-joins"

  private val KindKey = "kind"

  /** The property that is reported if the number of joins has changed. */
  val Number = "number_of_joins_with_arrangements"
}
