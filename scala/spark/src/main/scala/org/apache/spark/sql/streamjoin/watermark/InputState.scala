package org.apache.spark.sql.streamjoin.watermark

/**
 * The state of an input in a batch in addition to its watermark. All values are in milliseconds.
 *
 * An idle input has two watermarks. Its own does not move, and decides which of its rows are late
 * when it sends rows again. The second one is for eviction, and other inputs advance it. It remains
 * in effect after the input has sent rows, until the input's own catches up, because a watermark
 * never decreases. Partitions work in the same way: an input's own watermark waits for all of them,
 * the second one only for the active ones.
 *
 * @param since
 *   time of its last row, on the clock of the query's trigger; none if it is not idle
 * @param carried
 *   its watermark for eviction; none if it equals its own
 * @param partitions
 *   partitions that have sent rows, by name, if each has separate bounds
 * @param per
 *   column with these names; unknown for older checkpoints
 */
final private[streamjoin] case class InputState(
    since: Option[Long] = None,
    carried: Option[Long] = None,
    partitions: Map[String, PartitionState] = Map.empty,
    per: Option[String] = None
) {
  def isEmpty: Boolean = this == InputState()

  /** Since when it, or the first of its idle partitions, has been idle. */
  def firstIdle: Option[Long] = (since ++ partitions.values.flatMap(_.since)).minOption

  /** The lowest watermark of all partitions. */
  def slowest: Option[Long] = partitions.values.map(_.millis).minOption

  /** The lowest watermark of the partitions that are not idle. */
  def slowestActive: Option[Long] = partitions.values.filter(_.since.isEmpty).map(_.millis).minOption

  /**
   * The state for a query in which another column may identify the partitions: the previous
   * partitions would never send a row again, or be confused with others of the same name.
   */
  def by(column: Option[String]): InputState =
    if (column.isDefined && per.forall(column.contains)) copy(per = column.filter(_ => partitions.nonEmpty))
    else copy(partitions = Map.empty, per = None)

  /**
   * The state after a batch with rows of this input.
   *
   * @param newest
   *   watermark of each partition that had rows, from their times
   */
  def spoken(newest: Map[String, Long]): InputState = copy(
    since = None,
    partitions = partitions ++ newest.map { case (name, millis) =>
      name -> PartitionState(
        partitions.get(name).fold(millis)(before => math.max(before.millis, millis)),
        None
      )
    }
  )
}

/**
 * A partition of an input, in milliseconds.
 *
 * @param millis
 *   its watermark
 * @param since
 *   time of its last row; none if it is not idle
 */
final private[streamjoin] case class PartitionState(millis: Long, since: Option[Long])

/**
 * When inputs and their partitions last had a row, in milliseconds on the clock of the query's
 * trigger.
 *
 * The time between two runs does not count as silence, because the query was not reading. If runs
 * process the available data and end, as with `availableNow`, silence is counted across runs.
 *
 * @param begun
 *   start of the run
 * @param acrossRuns
 *   whether time before the run counts
 * @param last
 *   time of the last row by key and, for a partition, its name; before the first row, the start of
 *   the query
 */
final private[streamjoin] case class LastHeard(
    begun: Long = 0L,
    acrossRuns: Boolean = false,
    last: Map[(Int, Option[String]), Long] = Map.empty
) {

  /** The time of the last row, if that was at least the timeout ago. */
  def before(key: Int, partition: Option[String], time: Long, timeout: Long): Option[Long] = {
    val heard = last.getOrElse((key, partition), begun)
    Some(if (acrossRuns) heard else math.max(heard, begun)).filter(time - _ >= timeout)
  }

  def now(keys: Iterable[(Int, Option[String])], time: Long): LastHeard =
    copy(last = last ++ keys.map(_ -> time))

  /** Called at the start of a run. The silence of an unknown input starts now. */
  def beginning(keys: Iterable[Int], time: Long, acrossRuns: Boolean): LastHeard =
    LastHeard(time, acrossRuns, keys.map(key => (key, Option.empty[String]) -> time).toMap ++ last)
}
