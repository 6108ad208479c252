package org.apache.spark.sql.streamjoin.execution

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.expressions.{AttributeReference, DirectShufflePartitionID, Literal}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.plans.physical.ShufflePartitionIdPassThrough
import org.apache.spark.sql.execution.exchange.ShuffleExchangeExec
import org.apache.spark.sql.execution.{ExpandExec, ProjectExec, SparkPlan, SparkStrategy}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streamjoin.plans.{Barrier, IntervalJoin, NewestTime, Refused}
import org.apache.spark.sql.types.IntegerType

import streamjoin.core.{Left, Right, Side}

/** Plans our logical nodes; binds a join to the batch that is being planned. */
final private[streamjoin] case class StreamJoinStrategy(session: SparkSession) extends SparkStrategy {

  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case join: IntervalJoin =>
      val binding = BatchBinding.current(session)
      binding.foreach(_.verify(join))
      val tasks = binding.fold(SQLConf.get.numShufflePartitions)(_.partitions(join.plan))
      def input(side: Side, plan: LogicalPlan): SparkPlan = {
        val rows = planLater(NewestTime.noted(plan))
        if (join.plan.broadcast.contains(side)) toEach(rows, tasks) else rows
      }
      IntervalJoinExec(
        join.leftKeys,
        join.rightKeys,
        join.condition,
        join.times,
        join.plan,
        binding,
        input(Left, join.left),
        input(Right, join.right)
      ) :: Nil
    case refused: Refused =>
      RefusedExec(refused.what, refused.output, refused.children.map(planLater), refused.refusal) :: Nil
    case barrier: Barrier => planLater(barrier.child) :: Nil
    case NewestTime(time, child) => NewestTimeExec(time, planLater(child)) :: Nil
    case _ => Nil
  }

  /** Every row to each of the tasks, by a shuffle: nothing goes through the driver, and a retry reads what was shuffled. */
  private def toEach(input: SparkPlan, tasks: Int): SparkPlan = {
    val task = AttributeReference("task", IntegerType, nullable = false)()
    val copies = ExpandExec((0 until tasks).map(input.output :+ Literal(_)), input.output :+ task, input)
    val partitioning = ShufflePartitionIdPassThrough(DirectShufflePartitionID(task), tasks)
    ProjectExec(input.output, ShuffleExchangeExec(partitioning, copies))
  }
}
