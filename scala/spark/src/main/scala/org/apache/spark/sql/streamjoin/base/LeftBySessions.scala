package org.apache.spark.sql.streamjoin.base

/**
 * What queries have left in this driver, the newest first. A session that leaves much displaces
 * first what it has left itself.
 *
 * @param ofSession
 *   how many values of a session are kept
 * @param ofAll
 *   how many of all sessions together
 */
final private[streamjoin] class LeftBySessions[A](ofSession: Int, ofAll: Int) {
  private var all = Vector.empty[(String, A)]

  /**
   * Adds a value made from the one that it replaces, if the session has left one.
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

  /** The newest of a session that asks; one of another session, if it sees them and has none. */
  def first(asker: QueryOwner)(is: A => Boolean): Option[A] = {
    val (own, others) = synchronized(all).partition(_._1 == asker.id)
    (if (asker.seesAll) own.iterator ++ others else own.iterator).map(_._2).find(is)
  }
}
