package org.apache.spark.sql.streamjoin.checkpoint

import org.apache.hadoop.fs.Path

/**
 * Where the state of an operator is, from a batch on. A change that has to rewrite the state begins
 * a generation of its own, next to the one before, which stays what it was: until the first batch
 * of the new one is committed, the query can go back to it.
 *
 * @param from
 *   the first batch that starts from it
 * @param partitions
 *   number of partitions, each with its own state store
 * @param folder
 *   below `<checkpoint>/stream-join-state`; none for the first generation, which is in `state`
 * @param storeIds
 *   ids of the written stores, by partition, where checkpoints have ids
 * @param provider
 *   class of the state store's provider, if it is not the one that Spark has recorded for the query
 * @param meaning
 *   identifies what its rows mean, if they were written for a changed query
 */
final private[streamjoin] case class Generation(
    from: Long,
    partitions: Int,
    folder: Option[String] = None,
    storeIds: Seq[String] = Nil,
    provider: Option[String] = None,
    meaning: Option[String] = None
) {

  /**
   * The version of its stores from which a batch starts. Those of the first generation are numbered
   * as batches are; a rewritten state is version 1 of its stores.
   */
  def version(batch: Long): Long = batch - firstBatch

  /** The batch whose state is version 0 of the stores, the empty one. */
  def firstBatch: Long = if (folder.isEmpty) 0 else from - 1

  /** Whether a batch before this one has started from it, unless an attempt at it was abandoned. */
  def isBegunBefore(batch: Long): Boolean = folder.isEmpty || from < batch

  /** Whether there is no state yet. */
  def isEmpty: Boolean = this == Generation.empty

  /** Whether the state of the other one serves as well. */
  def isLike(other: Generation): Boolean =
    partitions == other.partitions && provider == other.provider && meaning == other.meaning

  /** @param state the checkpoint's folder of states */
  def root(state: Path): Path =
    folder.fold(state)(new Path(new Path(state.getParent, Generation.Directory), _))
}

private[streamjoin] object Generation {
  val Directory = "stream-join-state"

  /** In place of the first generation of an operator that was added to a running query. */
  val empty: Generation = Generation(0, partitions = 0)

  /** Where the state is after a batch, given where it has been, the oldest first. */
  def after(batch: Long, recorded: Seq[Generation]): Option[Generation] =
    recorded.takeWhile(_.isBegunBefore(batch + 1)).lastOption
}
