package org.apache.spark.sql.streamjoin.base

import org.apache.spark.sql.SparkSession

/**
 * A difference between what a query maintains and what it would write, as `sj.evolution` shows it.
 */
final private[streamjoin] case class TargetChange(
    what: String,
    was: String,
    is: String,
    state: String,
    results: String,
    advice: String
)

/** The top of a query that maintains something which outlives its checkpoint. */
private[streamjoin] trait MaintainsTarget {

  /** What would change with the next batch. It only reads. */
  def changes(session: SparkSession): Seq[TargetChange]
}
