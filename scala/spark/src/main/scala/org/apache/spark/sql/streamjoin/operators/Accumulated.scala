package org.apache.spark.sql.streamjoin.operators

import org.apache.spark.sql.streamjoin.base.StreamJoinErrors

/**
 * Counts the rows that a task has buffered, now and earlier in the batch.
 *
 * @param before
 *   the batch
 * @param cap
 *   at which the task fails, with nothing of the batch committed
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
