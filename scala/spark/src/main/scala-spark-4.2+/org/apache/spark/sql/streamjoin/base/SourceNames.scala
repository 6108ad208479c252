package org.apache.spark.sql.streamjoin.base

import org.apache.spark.sql.catalyst.analysis.NamedStreamingRelation
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.streaming.StreamingRelationV2
import org.apache.spark.sql.execution.datasources.v2.StreamingDataSourceV2ScanRelation
import org.apache.spark.sql.execution.streaming.runtime.{StreamingExecutionRelation, StreamingRelation}

/** Names of sources, from `readStream.name(...)`. */
private[streamjoin] object SourceNames {

  /**
   * Matches the wrapper around a stream whose source Spark has not named yet, and returns the
   * stream.
   */
  object Unnamed {
    def unapply(plan: NamedStreamingRelation): Option[LogicalPlan] = Some(plan.child)
  }

  /** The name of a source in a query, if the user gave it one. */
  def of(leaf: LogicalPlan): Option[String] = leaf match {
    case source: StreamingRelation => source.sourceIdentifyingName.nameOpt
    case source: StreamingRelationV2 => source.sourceIdentifyingName.nameOpt
    case source: StreamingExecutionRelation => source.sourceIdentifyingName.nameOpt
    case source: StreamingDataSourceV2ScanRelation => source.relation.sourceIdentifyingName.nameOpt
    case _ => None
  }
}
