package org.apache.spark.sql.streamjoin.registry

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.plans.logical.{Filter, Join, LogicalPlan}
import org.apache.spark.sql.streamjoin.analysis.OptimizedQuery
import org.apache.spark.sql.streamjoin.batch.PlannedBatch
import org.apache.spark.sql.streamjoin.checkpoint.{ArrangedJoinLog, Description}
import org.apache.spark.sql.streamjoin.joins.delta.{DeltaDescription, DeltaJoin}
import org.apache.spark.sql.streamjoin.joins.table.{LookUpDescription, TableJoin, TableRematch}

/**
 * The joins with arrangements in a query, as it is written: their optimized form may differ from
 * run to run.
 */
private[streamjoin] object ArrangedJoins {

  /** In plan order. */
  def in(analyzed: LogicalPlan): Seq[Description] = {
    val query = OptimizedQuery.atBatchTime(analyzed)
    val filters = query.collect { case Filter(condition, join: Join) => join -> condition }
    query.collect {
      case join: DeltaJoin => Some(DeltaDescription.of(join))
      case join: Join if TableJoin.isMine(join) =>
        LookUpDescription.of(join, filters.collectFirst { case (of, condition) if of eq join => condition })
      case rematch: TableRematch => LookUpDescription.of(rematch.join, None)
    }.flatten
  }

  /**
   * The first step of such joins in a run: checks them against the checkpoint, or records them
   * there. Each join takes it when it is planned, because no other code of ours runs before the
   * first batch.
   */
  def beginRun(session: SparkSession): Unit =
    PlannedBatch.current(session).map(_.execution).foreach { execution =>
      if (execution.isFirstBatch) {
        val checkpoint = new Path(execution.checkpointLocation).getParent
        new ArrangedJoinLog(session, checkpoint)
          .verifyOrRecord(in(execution.logical), execution.currentBatchId > 0)
      }
    }
}
