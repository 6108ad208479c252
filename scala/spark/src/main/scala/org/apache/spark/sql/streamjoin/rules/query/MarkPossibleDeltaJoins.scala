package org.apache.spark.sql.streamjoin.rules.query

import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streamjoin.base.StreamJoinConf
import org.apache.spark.sql.streamjoin.plans.PossibleDeltaJoin

/**
 * Marks each query of a join that may turn out to be a delta join. Spark calls the rule before it
 * resolves anything: a name may be a view of an arrangement's changes, and once the name is
 * resolved, the `*` of the outer query is resolved too. [[JoinArrangements]] removes the marks.
 */
private[streamjoin] object MarkPossibleDeltaJoins extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan =
    if (SQLConf.get.getConf(StreamJoinConf.Arrangements).isEmpty || plan.exists(isMark)) plan
    else
      plan.resolveOperatorsUp {
        case project @ Project(_, source)
            if project.origin.sqlText.isDefined && mayJoinArrangements(source) =>
          PossibleDeltaJoin(project)
      }

  private def isMark(plan: LogicalPlan): Boolean = plan.isInstanceOf[PossibleDeltaJoin]

  private def mayJoinArrangements(source: LogicalPlan): Boolean = source match {
    case Filter(_, child) => mayJoinArrangements(child)
    case SubqueryAlias(_, child) => mayJoinArrangements(child)
    case join: Join => join.collectLeaves().forall(isName)
    case _ => false
  }

  private def isName(leaf: LogicalPlan): Boolean = leaf match {
    case _: UnresolvedRelation => true
    case reference: CTERelationRef => !reference.recursive
    case _ => false
  }
}
