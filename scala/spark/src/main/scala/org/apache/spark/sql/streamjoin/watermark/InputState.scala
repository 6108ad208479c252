package org.apache.spark.sql.streamjoin.watermark

/**
 * What a batch knows of an input beyond its watermark. All values are in milliseconds.
 *
 * An idle input has two watermarks. Its own stays where it is, and decides which of its rows are
 * late when it sends rows again. The second one is for eviction, and other inputs carry it on. It
 * still counts after the input has sent rows, until the input's own catches up, because a watermark
 * never goes back. Partitions work alike: an input's own watermark waits for all of them, the
 * second one for the active ones.
 *
 * @param since
 *   time of its last row, on the clock of the query's trigger; none if it is not idle
 * @param carried
 *   its watermark for eviction; none if that is its own
 * @param partitions
 *   partitions that have sent rows, by name, if each has separate bounds
 * @param per
 *   column with these names; not known of older checkpoints
 */
final private[streamjoin] case class InputState(
    since: Option[Long] = None,
    carried: Option[Long] = None,
    partitions: Map[String, PartitionState] = Map.empty,
    per: Option[String] = None
) {
  def isEmpty: Boolean = this == InputState()

  /** Since when it, or the first idle one of its partitions, is idle. */
  def firstIdle: Option[Long] = (since ++ partitions.values.flatMap(_.since)).minOption

  /** The lowest watermark of all partitions. */
  def slowest: Option[Long] = partitions.values.map(_.millis).minOption

  /** The lowest watermark of the partitions that are not idle. */
  def slowestActive: Option[Long] = partitions.values.filter(_.since.isEmpty).map(_.millis).minOption

  /**
   * The state for a query in which another column may tell the partitions apart: those of before
   * would never send a row again, or be taken for others of the same name.
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
 * When inputs and their partitions had their last row, in milliseconds on the clock of the query's
 * trigger.
 *
 * The time between two runs does not count as silence: the query was not listening. If runs process
 * the available data and end, as with `availableNow`, silence is counted across runs.
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

  /** At the start of a run. An input that is not known yet counts as heard of now. */
  def beginning(keys: Iterable[Int], time: Long, acrossRuns: Boolean): LastHeard =
    LastHeard(time, acrossRuns, keys.map(key => (key, Option.empty[String]) -> time).toMap ++ last)
}
