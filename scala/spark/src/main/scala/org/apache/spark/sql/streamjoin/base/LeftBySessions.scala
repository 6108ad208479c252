package org.apache.spark.sql.streamjoin.base

/**
 * Values that queries have left in this driver, the newest first. A session that leaves many values
 * first displaces its own.
 *
 * @param ofSession
 *   how many values of a session are kept
 * @param ofAll
 *   how many of all sessions together
 */
final private[streamjoin] class LeftBySessions[A](ofSession: Int, ofAll: Int) {
  private var all = Vector.empty[(String, A)]

  /**
   * Adds a value, computed from the session's value that it replaces, if there is one.
   *
   * @param owner
   *   id of the session: [[QueryOwner.id]]
   */
  def put(owner: String)(replaces: A => Boolean)(value: Option[A] => A): Unit = synchronized {
    val (before, others) = all.partition { case (session, other) => session == owner && replaces(other) }
    val added = (owner -> value(before.headOption.map(_._2))) +: others
    val surplus = added.filter(_._1 == owner).drop(ofSession)
    all = (if (surplus.isEmpty) added else added.filterNot(surplus.contains)).take(ofAll)
  }

  /**
   * The newest value of the asking session; otherwise one of another session, if the session may
   * see it.
   */
  def first(asker: QueryOwner)(is: A => Boolean): Option[A] = {
    val (own, others) = synchronized(all).partition(_._1 == asker.id)
    (if (asker.seesAll) own.iterator ++ others else own.iterator).map(_._2).find(is)
  }
}
