package org.apache.spark.sql.streamjoin.base

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan

/** Names of sources, from `readStream.name(...)`. Spark 4.1 has none. */
private[streamjoin] object SourceNames {

  /** Matches a stream whose source has no name yet. */
  object Unnamed {
    def unapply(plan: LogicalPlan): Option[LogicalPlan] = None
  }

  def of(leaf: LogicalPlan): Option[String] = None
}
