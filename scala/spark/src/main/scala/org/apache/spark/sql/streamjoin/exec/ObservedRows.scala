package org.apache.spark.sql.streamjoin.exec

import scala.collection.mutable

import org.apache.spark.sql.streamjoin.base.UnreadMessages

/**
 * What the tasks have counted about the rows of an operator in a run. The counts of keys are halved
 * now and then, so that keys which were hot long ago are forgotten.
 */
final private[streamjoin] class ObservedRows {
  import ObservedRows._

  private val distances = new TimeHistogram
  private val rows = new Array[Long](2)
  private val keys = Array.fill(2)(mutable.Map.empty[String, Long])
  private var said, unsaid = 0L

  /** @param reports of a batch */
  def add(reports: TaskReports): Unit = synchronized {
    reports.observed.foreach { observed =>
      distances.add(observed.distances)
      for ((hot, at) <- observed.hotKeys.zipWithIndex; key <- hot)
        keys(at)(key.key) = keys(at).getOrElse(key.key, 0L) + key.rows
    }
    rows.indices.foreach { at =>
      rows(at) += reports.sum(_.in(at))
      if (rows(at) > Many) {
        rows(at) /= 2
        keys(at).mapValuesInPlace((_, count) => count / 2)
      }
      if (keys(at).size > Keys)
        keys(at).subtractAll(keys(at).toSeq.sortBy(_._2).map(_._1).dropRight(Keys / 2))
    }
  }

  /**
   * Adds the messages of a batch.
   *
   * @param unread
   *   how many of them said nothing
   * @return
   *   the number of messages, once there are many and none has said something
   */
  def addMessages(messages: Long, unread: Long): Option[Long] = synchronized {
    val before = unsaid
    said += messages - unread
    unsaid += unread
    Option.when(said == 0 && before < UnreadMessages.Many && unsaid >= UnreadMessages.Many)(unsaid)
  }

  /** The number of matches, and the distances, in ms, below which shares of them lie. */
  def quantiles(shares: Double*): (Long, Seq[Long]) = synchronized {
    (distances.total, shares.flatMap(distances.quantile))
  }

  /**
   * The hottest keys of an input with their shares of its rows, the hottest first; none if few rows
   * have come.
   */
  def hotKeys(at: Int): Seq[(String, Double)] = synchronized {
    if (rows(at) < Few) Nil
    else
      keys(at).toSeq
        .map { case (key, count) => key -> math.min(count.toDouble / rows(at), 1.0) }
        .filter(_._2 >= Share)
        .sortBy(-_._2)
        .take(Shown)
  }
}

private object ObservedRows {
  private val Few = 1000L
  private val Many = 10000000L
  private val Keys = 200
  private val Share = 0.05
  private val Shown = 5
}
