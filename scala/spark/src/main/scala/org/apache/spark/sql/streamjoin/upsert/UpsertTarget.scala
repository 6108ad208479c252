package org.apache.spark.sql.streamjoin.upsert

import java.util.UUID

/**
 * A batch of a query.
 *
 * @param query
 *   the query's id, which is in its checkpoint
 * @param plannedMs
 *   when the batch was planned, in milliseconds since the epoch, from its checkpoint. It
 *   distinguishes a batch that runs again from another one with its number, after the checkpoint
 *   was restored to an earlier state
 */
final private[streamjoin] case class UpsertBatch(query: UUID, number: Long, plannedMs: Long)

/** A store of rows by key. The driver calls it once for each batch. */
private[streamjoin] trait UpsertTarget {

  /**
   * Checks at `start()` that the target can store the changes. It leaves nothing behind; if the
   * driver dies, the next start with the checkpoint removes the leftovers.
   */
  def check(changes: NetChanges, checkpoint: String): Unit

  /** @param changes the columns of the changes */
  private[upsert] def identity(changes: NetChanges): TargetIdentity

  /**
   * Whether the target records its batches. It may then be moved: its record decides, not its
   * location.
   */
  private[upsert] def keepsBatches: Boolean = false

  /**
   * Compares the target's record of batches with a checkpoint, at `start()`.
   *
   * @throws org.apache.spark.sql.AnalysisException
   *   if the target does not belong to the state of the checkpoint
   */
  private[upsert] def verify(checkpoint: UpsertCheckpoint): Unit = ()

  /**
   * Whether the target already has the batch, which then does not have to change anything.
   *
   * @throws org.apache.spark.sql.AnalysisException
   *   if the target does not belong to the state of the checkpoint
   */
  def has(batch: UpsertBatch): Boolean

  /** Brings the target to the state after the batch, or leaves it unchanged. */
  def write(changes: NetChanges, counts: ChangeCounts, batch: UpsertBatch): Unit
}
