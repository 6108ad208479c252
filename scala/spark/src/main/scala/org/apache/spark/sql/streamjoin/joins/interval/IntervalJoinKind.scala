package org.apache.spark.sql.streamjoin.joins.interval

import org.apache.spark.sql.Column
import org.apache.spark.sql.catalyst.expressions.{AttributeReference, DirectShufflePartitionID, Literal}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.plans.physical.ShufflePartitionIdPassThrough
import org.apache.spark.sql.execution.exchange.ShuffleExchangeExec
import org.apache.spark.sql.execution.{ExpandExec, ProjectExec, SparkPlan}
import org.apache.spark.sql.functions.{concat, lit, when}
import org.apache.spark.sql.streamjoin.analysis.Recognizer
import org.apache.spark.sql.streamjoin.batch.BatchBinding
import org.apache.spark.sql.streamjoin.checkpoint.InputOutline
import org.apache.spark.sql.streamjoin.operator.OperatorKind
import org.apache.spark.sql.streamjoin.operator.OperatorKind.Planned
import org.apache.spark.sql.types.IntegerType

import streamjoin.core.Side

/** The interval join: recognized by [[RecognizeIntervalJoin]], planned here. */
private[streamjoin] object IntervalJoinKind extends OperatorKind {
  override val name: String = "interval_join"

  override val nodeName: String = "StreamIntervalJoin"

  override def boundsDistances: Boolean = true

  override def whyLeft(input: InputOutline, matchedIn: Column): Column =
    if (input.recordsMatches)
      when(matchedIn.isNull, lit("it was emitted without a match, or it first matched in that batch."))
        .otherwise(concat(lit("it matched in batch "), matchedIn, lit(" or earlier, and expired.")))
    else
      lit(
        "it expired, or it was emitted with its only match. Each of its pairs was emitted when the later row arrived."
      )

  override def recognizer: Recognizer = RecognizeIntervalJoin

  override def plan(binding: Option[BatchBinding], planLater: LogicalPlan => SparkPlan): Planned = {
    case join: StreamIntervalJoin =>
      val exec = IntervalJoinExec(
        join.leftKeys,
        join.rightKeys,
        join.conjuncts,
        join.times,
        join.carried,
        join.plan,
        binding,
        planLater(join.left),
        planLater(join.right)
      )
      join.plan.broadcast.fold(exec)(sentToEach(exec, _))
  }

  private def sentToEach(exec: IntervalJoinExec, side: Side): IntervalJoinExec = side match {
    case Side.Left => exec.copy(left = toEach(exec.left, exec.numPartitions))
    case Side.Right => exec.copy(right = toEach(exec.right, exec.numPartitions))
  }

  /**
   * Shuffles every row to each task: nothing passes through the driver, and a retry rereads the
   * shuffle.
   */
  private def toEach(input: SparkPlan, tasks: Int): SparkPlan = {
    val task = AttributeReference("task", IntegerType, nullable = false)()
    val copies = ExpandExec((0 until tasks).map(input.output :+ Literal(_)), input.output :+ task, input)
    val partitioning = ShufflePartitionIdPassThrough(DirectShufflePartitionID(task), tasks)
    ProjectExec(input.output, ShuffleExchangeExec(partitioning, copies))
  }
}
