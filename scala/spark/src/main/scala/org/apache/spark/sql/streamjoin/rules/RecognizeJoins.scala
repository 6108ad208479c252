package org.apache.spark.sql.streamjoin.rules

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression
import org.apache.spark.sql.catalyst.optimizer.{ExtractPythonUDFFromJoinCondition, RewritePredicateSubquery}
import org.apache.spark.sql.catalyst.plans.logical.{Join, LogicalPlan}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.trees.TreePattern.PLAN_EXPRESSION
import org.apache.spark.sql.streamjoin.analysis.{
  AwaitedColumns,
  NeverTrue,
  Recognition,
  StreamJoinType,
  WatermarkLineage,
  WatermarkPlacement
}
import org.apache.spark.sql.streamjoin.base.StreamJoinConf
import org.apache.spark.sql.streamjoin.operators.BatchBinding
import org.apache.spark.sql.streamjoin.plans.Refused
import org.apache.spark.sql.streamjoin.time.BatchTime

/**
 * After pushdown, pruning and inference: joins of two streams become interval joins, or are
 * refused.
 */
final private[streamjoin] case class RecognizeJoins(session: SparkSession) extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan =
    if (!plan.isStreaming || !StreamJoinConf.enabled) plan
    else {
      // A function of Python's and EXISTS cannot run in a join; Spark moves them out of the
      // condition later, where it no longer sees this join.
      val recognized = recognize(
        WatermarkPlacement(ExtractPythonUDFFromJoinCondition(withoutSubqueries(plan)))
      )
      BatchBinding.currentTime(session).fold(recognized)(BatchTime.in(recognized, _))
    }

  private def withoutSubqueries(plan: LogicalPlan): LogicalPlan =
    plan.transformUpWithPruning(_.containsPattern(PLAN_EXPRESSION)) {
      case join: Join
          if StreamJoinType.isStreamJoin(join) &&
            join.condition.exists(SubqueryExpression.hasInOrCorrelatedExistsSubquery) =>
        RewritePredicateSubquery(join)
    }

  private def recognize(plan: LogicalPlan): LogicalPlan = {
    // From the inputs up: a join is analysed when the joins below it are known.
    val lineage = WatermarkLineage.within(plan)
    var ordinal = 0
    plan.transformUp {
      case NeverTrue(rows) => rows
      case operator if operator.isStreaming =>
        Operators.recognize(operator, ordinal, lineage) match {
          case Recognition.Found(node) =>
            ordinal += 1
            node
          case Recognition.Rejected(what, error) if !isSparks(operator) =>
            Refused(what, operator.output, operator.children, error)
          case _ => AwaitedColumns(operator, lineage)
        }
    }
  }

  /** Spark has an operator for it, and is to run what we reject. */
  private def isSparks(operator: LogicalPlan): Boolean =
    StreamJoinConf.handsOver && operator.isInstanceOf[Join]
}
