package org.apache.spark.sql.streamjoin.rules.batch

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy}
import org.apache.spark.sql.streamjoin.arrangement.maintain.{Arrange, ArrangeExec}
import org.apache.spark.sql.streamjoin.batch.BatchBinding
import org.apache.spark.sql.streamjoin.checkpoint.SparksOperator
import org.apache.spark.sql.streamjoin.joins.interval.{IntervalJoinExec, TakenOverJoinExec}
import org.apache.spark.sql.streamjoin.operator.{RemovedOperatorExec, StatefulNodeExec}
import org.apache.spark.sql.streamjoin.plans.{
  Barrier,
  PendingOperator,
  RejectedOperator,
  RejectedOperatorExec,
  StatefulNode
}
import org.apache.spark.sql.streamjoin.registry.{ArrangedJoins, OperatorKinds}
import org.apache.spark.sql.streamjoin.watermark.{
  DropPunctuation,
  IdleAfter,
  NewestTimeExec,
  ObserveMaxEventTime
}

/**
 * Plans our logical nodes. Spark calls the strategy once per batch, during planning: a stateful
 * operator is bound to the batch that is being planned.
 */
final private[streamjoin] case class StreamJoinStrategy(session: SparkSession) extends SparkStrategy {

  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case node: StatefulNode =>
      val binding = BatchBinding.beginBatch(session)
      val planned = OperatorKinds.plan(node, binding, input => planLater(ObserveMaxEventTime.noted(input)))
      for {
        batch <- binding
        exec <- planned.collectFirst { case exec: StatefulNodeExec => exec }
      } {
        batch.beginRun(node, exec.shortName, exec.numPartitions)
        if (OperatorKinds.named(node.kind).exists(_.looksUp)) ArrangedJoins.beginRun(session)
      }
      withRemoved(
        planned.transformUp {
          case join: IntervalJoinExec if binding.exists(_.states.hasSparksId(join.ordinal)) =>
            TakenOverJoinExec.of(join)
        },
        binding.fold(Seq.empty[SparksOperator])(_.removedAbove(node.ordinal))
      ) :: Nil
    case rejected: RejectedOperator =>
      RejectedOperatorExec(
        rejected.what,
        rejected.output,
        rejected.children.map(planLater),
        rejected.rejection
      ) :: Nil
    case operator: PendingOperator =>
      RejectedOperatorExec(
        operator.nodeName,
        operator.output,
        operator.children.map(planLater),
        operator.disabled
      ) :: Nil
    case barrier: Barrier => planLater(barrier.child) :: Nil
    case rows: DropPunctuation => rows.planned(planLater(rows.child)) :: Nil
    case idle: IdleAfter => planLater(idle.child) :: Nil
    case arrange: Arrange => ArrangeExec.of(arrange, session, planLater(arrange.child)) :: Nil
    case ObserveMaxEventTime(time, child) => NewestTimeExec(time, planLater(child)) :: Nil
    case other => ArrangedJoins.plan(other, session, planLater).toList
  }

  private def withRemoved(plan: SparkPlan, removed: Seq[SparksOperator]): SparkPlan =
    removed.foldLeft(plan)((below, operator) => RemovedOperatorExec(operator, below))
}
