package org.apache.spark.sql.streamjoin.watermark

/**
 * What a batch knows of an input beyond its watermark. All values are in milliseconds.
 *
 * An idle input has two watermarks. Its own stays where it is, and says which of its rows are late
 * when it speaks again. The others carry the second one on, by which rows are evicted; it counts on
 * when the input has spoken, until its own has reached it, for a watermark never goes back. So it
 * is with partitions: its own watermark waits for all of them, the second one for those that speak.
 *
 * @param since
 *   when its last row came, on the clock of the query's trigger; none where it is not idle
 * @param carried
 *   its watermark for eviction; none where that is its own
 * @param partitions
 *   by name, those that have spoken, where each has bounds of its own
 */
final private[streamjoin] case class InputState(
    since: Option[Long] = None,
    carried: Option[Long] = None,
    partitions: Map[String, PartitionState] = Map.empty
) {
  def isEmpty: Boolean = this == InputState()

  /** Since when it is idle, or the first of its partitions that are. */
  def firstIdle: Option[Long] = (since ++ partitions.values.flatMap(_.since)).minOption

  /** The watermark of all partitions. */
  def slowest: Option[Long] = partitions.values.map(_.millis).minOption

  /** The watermark of the partitions that are not idle. */
  def slowestSpeaking: Option[Long] = partitions.values.filter(_.since.isEmpty).map(_.millis).minOption

  /**
   * After a batch with rows of this input.
   *
   * @param newest
   *   the watermark of each partition that had some, by their times
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
 *   when its last row came; none where it is not idle
 */
final private[streamjoin] case class PartitionState(millis: Long, since: Option[Long])

/**
 * When inputs, and their partitions, had their last row, in milliseconds on the clock of the
 * query's trigger.
 *
 * A query that goes on from run to run knows nothing of the time in which it does not run: others
 * may have been silent only because it did not listen. In one whose runs take what there is and
 * end, as of `availableNow`, silence is counted over the runs.
 *
 * @param begun
 *   the beginning of the run
 * @param acrossRuns
 *   time before the run counts
 * @param last
 *   by key and, of a partition, its name; before the first row, when the query began
 */
final private[streamjoin] case class LastHeard(
    begun: Long = 0L,
    acrossRuns: Boolean = false,
    last: Map[(Int, Option[String]), Long] = Map.empty
) {

  /** If it was at least so long ago. */
  def before(key: Int, partition: Option[String], time: Long, timeout: Long): Option[Long] = {
    val heard = last.getOrElse((key, partition), begun)
    Some(if (acrossRuns) heard else math.max(heard, begun)).filter(time - _ >= timeout)
  }

  def now(keys: Iterable[(Int, Option[String])], time: Long): LastHeard =
    copy(last = last ++ keys.map(_ -> time))

  /** At the beginning of a run; inputs of which nothing is known yet are heard of from now on. */
  def beginning(keys: Iterable[Int], time: Long, acrossRuns: Boolean): LastHeard =
    LastHeard(time, acrossRuns, keys.map(key => (key, Option.empty[String]) -> time).toMap ++ last)
}
