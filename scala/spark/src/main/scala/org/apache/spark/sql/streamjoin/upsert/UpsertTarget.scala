package org.apache.spark.sql.streamjoin.upsert

import java.util.UUID

/**
 * A batch of a query.
 *
 * @param query
 *   the query's id, which is in its checkpoint
 * @param plannedMs
 *   when the batch was planned, in milliseconds since the epoch, from its checkpoint: it tells a
 *   batch that runs again from another one with its number, after the checkpoint was put back to an
 *   earlier state
 */
final private[streamjoin] case class UpsertBatch(query: UUID, number: Long, plannedMs: Long)

/** Where rows are kept by key. The driver calls it, once for each batch that runs. */
private[streamjoin] trait UpsertTarget {

  /**
   * Checks at `start()` that the target can have the changes. It leaves nothing behind; what it
   * leaves when the driver dies, the next start with the checkpoint removes.
   */
  def check(changes: NetChanges, checkpoint: String): Unit

  private[upsert] def identity: TargetIdentity

  /**
   * Whether the target knows which batches it has. It then may move: what it says of them counts,
   * and not where it is.
   */
  private[upsert] def keepsBatches: Boolean = false

  /**
   * Compares what the target knows of batches with a checkpoint, at `start()`.
   *
   * @throws org.apache.spark.sql.AnalysisException
   *   if the target does not belong to the state of the checkpoint
   */
  private[upsert] def verify(checkpoint: UpsertCheckpoint): Unit = ()

  /**
   * Whether the target already has the batch, which then has to change nothing.
   *
   * @throws org.apache.spark.sql.AnalysisException
   *   if the target does not belong to the state of the checkpoint
   */
  def has(batch: UpsertBatch): Boolean

  /** Brings the target to the state after the batch, or leaves it as it was. */
  def write(changes: NetChanges, figures: Figures, batch: UpsertBatch): Unit
}
