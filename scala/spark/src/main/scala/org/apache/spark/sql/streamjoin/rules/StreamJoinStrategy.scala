package org.apache.spark.sql.streamjoin.rules

import org.apache.spark.sql.catalyst.plans.logical.{Join, LogicalPlan}
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy}
import org.apache.spark.sql.streamjoin.operators.arrange.{Arrange, ArrangeExec}
import org.apache.spark.sql.streamjoin.operators.delta.{DeltaJoin, DeltaPlan}
import org.apache.spark.sql.streamjoin.operators.table.{
  LookUpProgressExec,
  RematchJoin,
  TableJoin,
  TableLookUpExec
}
import org.apache.spark.sql.streamjoin.operators.{BatchBinding, PlannedBatch, StatefulNodeExec}
import org.apache.spark.sql.streamjoin.plans.{Barrier, Refused, RefusedExec, StatefulNode}
import org.apache.spark.sql.streamjoin.watermark.{DataRows, IdleAfter, NewestTime, NewestTimeExec}
import org.apache.spark.sql.{AnalysisException, SparkSession}

/**
 * Plans our logical nodes. Spark calls the strategy once per batch, in planning: a stateful
 * operator is bound to the batch that is being planned.
 */
final private[streamjoin] case class StreamJoinStrategy(session: SparkSession) extends SparkStrategy {

  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case node: StatefulNode =>
      val binding = BatchBinding.beginBatch(session)
      val planned = Operators.plan(node, binding, input => planLater(NewestTime.noted(input)))
      for {
        batch <- binding
        exec <- planned.collectFirst { case exec: StatefulNodeExec => exec }
      } {
        batch.beginRun(node, exec.numPartitions)
        if (node.kind == RematchJoin.Kind) ArrangedJoins.beginRun(session)
      }
      planned :: Nil
    case refused: Refused =>
      RefusedExec(refused.what, refused.output, refused.children.map(planLater), refused.refusal) :: Nil
    case operator @ PrepareStreamingQuery.NeedsExtension(refusal) =>
      RefusedExec(operator.nodeName, operator.output, operator.children.map(planLater), refusal) :: Nil
    case barrier: Barrier => planLater(barrier.child) :: Nil
    case rows: DataRows => rows.planned(planLater(rows.child)) :: Nil
    case idle: IdleAfter => planLater(idle.child) :: Nil
    case arrange: Arrange => ArrangeExec.of(arrange, session, planLater(arrange.child)) :: Nil
    case join: Join if TableJoin.isMine(join) => planned(join) :: Nil
    case join: DeltaJoin =>
      ArrangedJoins.beginRun(session)
      new DeltaPlan(join, session).plan :: Nil
    case NewestTime(time, child) => NewestTimeExec(time, planLater(child)) :: Nil
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
      val lookUp = TableLookUpExec.of(found, session, planLater(found.stream))
      if (PlannedBatch.current(session).isEmpty) lookUp else LookUpProgressExec.of(nameOf(found), lookUp)
    } catch {
      case refusal: AnalysisException if BatchBinding.currentTime(session).isEmpty =>
        RefusedExec("TableJoin", join.output, join.children.map(planLater), refusal)
    }
}
