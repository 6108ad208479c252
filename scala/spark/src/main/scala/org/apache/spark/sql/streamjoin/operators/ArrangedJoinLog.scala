package org.apache.spark.sql.streamjoin.operators

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.ObjectNode
import org.apache.hadoop.fs.Path

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.streamjoin.base.JsonLog

/**
 * What a join with arrangements is, as text: it must not change while a checkpoint is in use. Such
 * a
 * join keeps nothing, but what has come out of it may go later, and goes as the same rows.
 *
 * @param kind
 *   a delta join or a look-up
 */
final private[streamjoin] case class ArrangedJoin(kind: String, properties: Map[String, String])

/** @param zone of the session that began it */
final private[streamjoin] case class RecordedJoin(join: ArrangedJoin, zone: Option[String])

private[streamjoin] object ArrangedJoin {
  val Delta = "delta_join"
  val LookUp = "look_up"
}

/**
 * `<checkpoint>/arranged-joins/<n>`: the joins with arrangements of a query, in the order of its
 * plan, each written before the first batch. A checkpoint from before there was this log gets one
 * in
 * its next run.
 *
 * @param checkpoint
 *   the checkpoint's folder
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
   * The joins of the query have to be those that were recorded, if they were.
   *
   * @throws org.apache.spark.sql.AnalysisException
   *   for the first that is another
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
   * Before the first batch of a run.
   *
   * @param isBegun
   *   a batch has been committed; before that, what was recorded does not count
   */
  def verifyOrRecord(joins: Seq[ArrangedJoin], isBegun: Boolean): Unit = {
    val (before, now) = (recorded, joins.map(RecordedJoin(_, Some(SessionZone.current))))
    if (isBegun && before.nonEmpty) verify(joins, before)
    else if (before != now) {
      // The first one last: without it there are none.
      before.indices.reverse.foreach(number => fileManager.delete(batchIdToPath(number.toLong)))
      now.zipWithIndex.reverse.foreach { case (join, number) => add(number.toLong, join) }
    }
  }
}

private[streamjoin] object ArrangedJoinLog {
  val Directory = "arranged-joins"

  private val KindKey = "kind"

  /** What is compared where the numbers of joins differ. */
  val Number = "number_of_joins_with_arrangements"
}
