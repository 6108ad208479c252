package org.apache.spark.sql.streamjoin.batch

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.trees.TreeNodeTag
import org.apache.spark.sql.streamjoin.base.AnalyzedPlan

/**
 * The batch that Spark's own join has planned and not committed. It may have reached the sink, so
 * Spark's own join runs it again, and ours take over with the next one.
 */
private[streamjoin] object SparksBatch {
  private val Tag = TreeNodeTag[Long]("streamjoin.sparksBatch")

  /** The query of a run that begins with this batch. */
  def mark(query: LogicalPlan, batch: Long): LogicalPlan = {
    // A DataFrame may be started several times.
    val own = query.clone()
    own.setTagValue(Tag, batch)
    AnalyzedPlan.rewrite(own)(PartialFunction.empty)
  }

  /** Whether this thread plans it. */
  def isPlanned(session: SparkSession): Boolean = PlannedBatch.current(session).exists { planned =>
    planned.query.analyzedPlan.getTagValue(Tag).exists(_ >= planned.execution.currentBatchId)
  }
}
