package org.apache.spark.sql.streamjoin.joins.temporal

import org.apache.spark.sql.Column
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.functions.lit
import org.apache.spark.sql.streamjoin.analysis.Recognizer
import org.apache.spark.sql.streamjoin.batch.BatchBinding
import org.apache.spark.sql.streamjoin.checkpoint.InputOutline
import org.apache.spark.sql.streamjoin.operator.OperatorKind.Planned
import org.apache.spark.sql.streamjoin.operator.{OperatorKind, RowtimeSort}

import streamjoin.core.Side

/** The temporal join: recognized by [[RecognizeTemporalJoin]], planned here. */
private[streamjoin] object TemporalKind extends OperatorKind {
  override val name: String = "temporal_join"

  override val nodeName: String = "StreamTemporalJoin"

  override def whyLeft(input: InputOutline, matchedIn: Column): Column = lit(
    if (input.side.contains(Side.Left.name)) "it was emitted, with or without a match."
    else "no future row can match it, or it has become the newest of its key."
  )

  override def recognizer: Recognizer = RecognizeTemporalJoin

  override def plan(binding: Option[BatchBinding], planLater: LogicalPlan => SparkPlan): Planned = {
    case join: StreamTemporalJoin =>
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
      if (join.ordered) RowtimeSort(exec, exec.times.head, exec.ranges) else exec
  }
}
