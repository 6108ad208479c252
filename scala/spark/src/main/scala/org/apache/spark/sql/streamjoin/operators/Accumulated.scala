package org.apache.spark.sql.streamjoin.operators

import org.apache.spark.sql.streamjoin.base.StreamJoinErrors

/**
 * Counts the rows that a task buffers: those in state before the batch and all that the batch adds,
 * even if they leave again within it.
 *
 * @param before
 *   rows in state before the batch
 * @param cap
 *   number of rows at which the task fails, before anything of the batch is committed
 */
final private[operators] class Accumulated(partition: Int, before: Long, cap: Long) {
  private var rows = before

  def add(): Unit = {
    rows += 1
    if (rows >= cap)
      throw StreamJoinErrors.runtime(
        "STREAMJOIN_MAX_ACCUMULATED_RECORDS",
        "partition" -> partition.toString,
        "cap" -> cap.toString
      )
  }
}
