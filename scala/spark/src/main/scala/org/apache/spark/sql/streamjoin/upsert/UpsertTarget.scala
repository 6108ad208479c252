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

  /** Checks at `start()` what can be checked without writing. */
  def check(changes: NetChanges): Unit

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
