package org.apache.spark.sql.streamjoin.registry

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.streamjoin.analysis.OptimizedQuery
import org.apache.spark.sql.streamjoin.batch.PlannedBatch
import org.apache.spark.sql.streamjoin.checkpoint.{ArrangedJoinLog, Description}
import org.apache.spark.sql.streamjoin.joins.delta.DeltaKind
import org.apache.spark.sql.streamjoin.joins.table.LookUpKind
import org.apache.spark.sql.streamjoin.operator.ArrangedJoinKind

/**
 * The joins with arrangements in a query as written: their optimized form may differ between runs.
 */
private[streamjoin] object ArrangedJoins {

  private val kinds: Seq[ArrangedJoinKind] = Seq(DeltaKind, LookUpKind)

  /** Their descriptions for the checkpoint, in plan order. */
  def in(analyzed: LogicalPlan): Seq[Description] = {
    val query = OptimizedQuery.atBatchTime(analyzed)
    query.collect(Function.unlift(join => kinds.find(_.isMine(join)).map(_.describe(join, query)))).flatten
  }

  /** The physical plan of such a join. */
  def plan(
      plan: LogicalPlan,
      session: SparkSession,
      planLater: LogicalPlan => SparkPlan
  ): Option[SparkPlan] = kinds.find(_.isMine(plan)).map { kind =>
    beginRun(session)
    kind.plan(plan, session, planLater)
  }

  /**
   * The first step of such joins in a run: checks them against the checkpoint, or records them
   * there. Each join takes this step when it is planned, because no other code of streamjoin runs
   * before the first batch.
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
