package org.apache.spark.sql.streamjoin.rules

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.expressions.{
  CurrentBatchTimestamp,
  CurrentDate,
  CurrentTimestamp,
  LocalTimestamp
}
import org.apache.spark.sql.catalyst.plans.logical.{AnalysisHelper, LogicalPlan}
import org.apache.spark.sql.catalyst.trees.TreePattern.CURRENT_LIKE
import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.sql.streamjoin.plans.{Refused, StatefulNode}

/** Our operators of a query as they will run, found by optimizing a copy of it. */
private[streamjoin] object OptimizedQuery {

  /** @throws org.apache.spark.sql.AnalysisException for the lowest operator that is rejected */
  def nodes(query: LogicalPlan, session: SparkSession): Seq[StatefulNode] = nodesIn(of(query, session))

  /** From the inputs up. */
  def nodesIn(optimized: LogicalPlan): Seq[StatefulNode] =
    optimized.collect { case node: StatefulNode => node }.sortBy(_.ordinal)

  /** @throws org.apache.spark.sql.AnalysisException for the lowest operator that is rejected */
  def of(query: LogicalPlan, session: SparkSession): LogicalPlan = {
    val optimized = session.asInstanceOf[ClassicSession].sessionState.optimizer.execute(atBatchTime(query))
    optimized.foreachUp {
      case refused: Refused => throw refused.refusal
      case _ =>
    }
    optimized
  }

  /** Replaces the current time with that of some batch, as MicroBatchExecution.runBatch does. */
  def atBatchTime(query: LogicalPlan): LogicalPlan = AnalysisHelper.allowInvokingTransformsInAnalyzer {
    query.clone().transformAllExpressionsWithPruning(_.containsPattern(CURRENT_LIKE)) {
      case now: CurrentTimestamp => CurrentBatchTimestamp(0L, now.dataType, Some("UTC"))
      case now: LocalTimestamp => CurrentBatchTimestamp(0L, now.dataType, now.timeZoneId)
      case today: CurrentDate => CurrentBatchTimestamp(0L, today.dataType, today.timeZoneId)
    }
  }
}
