package org.apache.spark.sql.streamjoin.rules.batch

import org.apache.spark.sql.catalyst.plans.logical.{Join, LogicalPlan}
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy}
import org.apache.spark.sql.streamjoin.arrangement.maintain.{Arrange, ArrangeExec}
import org.apache.spark.sql.streamjoin.batch.{BatchBinding, PlannedBatch}
import org.apache.spark.sql.streamjoin.operator.StatefulNodeExec
import org.apache.spark.sql.streamjoin.joins.delta.{DeltaJoin, DeltaPlanner}
import org.apache.spark.sql.streamjoin.joins.table.{
  LookUpProgressExec,
  RematchJoin,
  TableJoin,
  TableLookUpExec,
  TableVersions
}
import org.apache.spark.sql.streamjoin.registry.{ArrangedJoins, OperatorKinds}
import org.apache.spark.sql.streamjoin.plans.{
  Barrier,
  PendingOperator,
  RejectedOperator,
  RejectedOperatorExec,
  StatefulNode
}
import org.apache.spark.sql.streamjoin.watermark.{
  DropPunctuation,
  IdleAfter,
  NewestTimeExec,
  ObserveMaxEventTime
}
import org.apache.spark.sql.{AnalysisException, SparkSession}

/**
 * Plans our logical nodes. Spark calls the strategy once per batch, in planning: a stateful
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
        batch.beginRun(node, exec.numPartitions)
        if (node.kind == RematchJoin.Kind) ArrangedJoins.beginRun(session)
      }
      planned :: Nil
    case refused: RejectedOperator =>
      RejectedOperatorExec(
        refused.what,
        refused.output,
        refused.children.map(planLater),
        refused.refusal
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
    case join: Join if TableJoin.isMine(join) => planned(join) :: Nil
    case join: DeltaJoin =>
      ArrangedJoins.beginRun(session)
      new DeltaPlanner(join, session).plan :: Nil
    case ObserveMaxEventTime(time, child) => NewestTimeExec(time, planLater(child)) :: Nil
    case _ => Nil
  }

  /** Name in the progress: the arrangement, and a number from its second look-up on. */
  private def nameOf(lookUp: TableJoin): String = {
    val joins = PlannedBatch
      .current(session)
      .toSeq
      .flatMap(_.execution.optimizedPlan.collect {
        case join: Join if TableJoin.isMine(join) => join
      })
    val number =
      if (joins.size < 2) 1
      else {
        val same = joins.map(TableJoin.of).filter(_.rows.name == lookUp.rows.name).reverse
        same.indexWhere(_.output == lookUp.output) + 1
      }
    s"lookUp.${lookUp.rows.name}${if (number > 1) s".$number" else ""}"
  }

  private def planned(join: Join): SparkPlan =
    try {
      val found = TableJoin.of(join)
      ArrangedJoins.beginRun(session)
      val seen = TableVersions.beginBatch(session, found.table)
      val lookUp = TableLookUpExec.of(found, seen, planLater(found.stream))
      if (PlannedBatch.current(session).isEmpty) lookUp else LookUpProgressExec.of(nameOf(found), lookUp)
    } catch {
      case refusal: AnalysisException if BatchBinding.currentTime(session).isEmpty =>
        RejectedOperatorExec("TableJoin", join.output, join.children.map(planLater), refusal)
    }
}
