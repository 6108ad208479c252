package org.apache.spark.sql.streamjoin.joins.table

import org.apache.spark.sql.catalyst.plans.logical.{Filter, Join, LogicalPlan}
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.streamjoin.batch.{BatchBinding, PlannedBatch}
import org.apache.spark.sql.streamjoin.checkpoint.Description
import org.apache.spark.sql.streamjoin.operator.ArrangedJoinKind
import org.apache.spark.sql.streamjoin.plans.RejectedOperatorExec
import org.apache.spark.sql.{AnalysisException, SparkSession}

/** A stream that looks up a table. */
private[streamjoin] object LookUpKind extends ArrangedJoinKind {

  override def isMine(plan: LogicalPlan): Boolean = plan match {
    case join: Join => TableJoin.isMine(join)
    case other => other.isInstanceOf[TableRematch]
  }

  override def describe(join: LogicalPlan, query: LogicalPlan): Option[Description] = join match {
    case join: Join =>
      val above = query.collectFirst { case Filter(condition, of: Join) if of eq join => condition }
      LookUpDescription.of(join, above)
    case rematch: TableRematch => LookUpDescription.of(rematch.join, None)
    case _ => None
  }

  override def plan(
      join: LogicalPlan,
      session: SparkSession,
      planLater: LogicalPlan => SparkPlan
  ): SparkPlan =
    try {
      val found = TableJoin.of(join.asInstanceOf[Join])
      val seen = TableVersions.beginBatch(session, found.table)
      val lookUp = TableLookUpExec.of(found, seen, planLater(found.stream))
      if (PlannedBatch.current(session).isEmpty) lookUp
      else LookUpProgressExec.of(nameOf(found, session), lookUp)
    } catch {
      case rejection: AnalysisException if BatchBinding.currentTime(session).isEmpty =>
        RejectedOperatorExec("TableJoin", join.output, join.children.map(planLater), rejection)
    }

  /** Name in the progress: the arrangement, followed by a number from its second look-up on. */
  private def nameOf(lookUp: TableJoin, session: SparkSession): String = {
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
}
