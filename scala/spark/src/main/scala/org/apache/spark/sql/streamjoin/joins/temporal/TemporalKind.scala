package org.apache.spark.sql.streamjoin.joins.temporal

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.streamjoin.analysis.Recognizer
import org.apache.spark.sql.streamjoin.batch.BatchBinding
import org.apache.spark.sql.streamjoin.operator.{OperatorKind, RowtimeSort}

/** The temporal join: recognised by [[RecognizeTemporalJoin]], planned here. */
private[streamjoin] object TemporalKind extends OperatorKind {

  override def recognizer: Recognizer = RecognizeTemporalJoin

  override def plan(
      node: LogicalPlan,
      binding: Option[BatchBinding],
      planLater: LogicalPlan => SparkPlan
  ): Option[SparkPlan] = node match {
    case join: TemporalJoin =>
      val exec = TemporalJoinExec(
        join.leftKeys,
        join.rightKeys,
        join.operation,
        join.ties,
        join.condition,
        join.unavailable,
        join.primaryKey,
        join.times,
        join.plan,
        binding,
        planLater(join.left),
        planLater(join.right)
      )
      Some(if (join.ordered) RowtimeSort(exec, exec.times.head, exec.ranges) else exec)
    case _ => None
  }
}
