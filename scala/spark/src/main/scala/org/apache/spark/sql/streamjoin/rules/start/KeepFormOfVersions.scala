package org.apache.spark.sql.streamjoin.rules.start

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.expressions.ExprId
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.streaming.WriteToStream
import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
import org.apache.spark.sql.streamjoin.analysis.OptimizedQuery
import org.apache.spark.sql.streamjoin.base.{AnalyzedPlan, StreamJoinConf}
import org.apache.spark.sql.streamjoin.changes.KafkaPosition
import org.apache.spark.sql.streamjoin.checkpoint.{CommittedBatches, Description, OperatorLog}
import org.apache.spark.sql.streamjoin.evolve.{QueryOperator, QueryOperators}
import org.apache.spark.sql.streamjoin.joins.temporal.{StreamAsOfJoin, StreamTemporalJoin}
import org.apache.spark.sql.streamjoin.watermark.WatermarkKeys

/**
 * Omits the position in Kafka from versions if an earlier build created the checkpoint without it:
 * rows in state could not be compared with new ones. Versions of equal time are then ordered as in
 * that build. Spark calls the rule at `start()`, after the joins have been restored in the query.
 */
final private[streamjoin] case class KeepFormOfVersions(session: SparkSession) extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan match {
    case write: WriteToStream if StreamJoinConf.enabled && write.inputQuery.exists(isPositioned) =>
      val old = begunWithout(write.inputQuery, new Path(write.resolvedCheckpointLocation))
      if (old.isEmpty) write
      else
        write.copy(inputQuery = AnalyzedPlan.rewrite(write.inputQuery) {
          case join: StreamAsOfJoin if join.position.exists(column => old(column.exprId)) =>
            join.withoutPosition
        })
    case other => other
  }

  private def isPositioned(operator: LogicalPlan): Boolean = operator match {
    case join: StreamAsOfJoin => join.position.nonEmpty
    case _ => false
  }

  /** The positions that the checkpoint lacks, by the ids of their columns. */
  private def begunWithout(query: LogicalPlan, checkpoint: Path): Set[ExprId] = {
    val hadoopConf = session.asInstanceOf[ClassicSession].sessionState.newHadoopConf()
    val files = CheckpointFileManager.create(checkpoint, hadoopConf)
    if (!files.exists(new Path(checkpoint, OperatorLog.Directory))) Set.empty
    else {
      val operators = QueryOperators.ofNext(
        OptimizedQuery.of(query, session),
        WatermarkKeys.of(query),
        new OperatorLog(session, checkpoint),
        CommittedBatches.next(checkpoint, hadoopConf),
        planned = false
      )
      operators.kept
        .collect {
          case QueryOperator(ordinal, join: StreamTemporalJoin, _)
              if operators.recorded.get(ordinal).exists(!hasPosition(_)) =>
            join.ties
        }
        .flatten
        .map(_.exprId)
        .toSet
    }
  }

  private def hasPosition(record: Description): Boolean =
    record.properties.get(StreamTemporalJoin.RightColumns).exists(_.contains(KafkaPosition.Columns.head))
}
