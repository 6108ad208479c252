package org.apache.spark.sql.streamjoin.rules.batch

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression
import org.apache.spark.sql.catalyst.optimizer.{ExtractPythonUDFFromJoinCondition, RewritePredicateSubquery}
import org.apache.spark.sql.catalyst.plans.logical.{GlobalLimit, Join, LocalLimit, LogicalPlan}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.trees.TreePattern.PLAN_EXPRESSION
import org.apache.spark.sql.streamjoin.analysis.{
  AwaitedColumns,
  ConstantBounds,
  NeverTrue,
  Recognition,
  StreamJoinType,
  WatermarkLineage,
  WatermarkPlacement
}
import org.apache.spark.sql.streamjoin.base.StreamJoinConf
import org.apache.spark.sql.streamjoin.batch.{BatchBinding, OperatorNumbers, PlannedBatch, SparksBatch}
import org.apache.spark.sql.streamjoin.plans.{PushdownBarrier, RejectedOperator}
import org.apache.spark.sql.streamjoin.registry.OperatorKinds
import org.apache.spark.sql.streamjoin.time.BatchTime

/**
 * Replaces operators such as joins of two streams with a `StatefulNode`, or with a
 * [[RejectedOperator]] if they are rejected. Spark calls the rule once per batch, after pushdown,
 * pruning and inference, so that conditions and columns are final.
 */
final private[streamjoin] case class RecognizeJoins(session: SparkSession) extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan =
    if (!plan.isStreaming || !StreamJoinConf.enabled) plan
    else {
      // Python UDFs and EXISTS cannot run in a join. Spark moves them out of the condition later,
      // when it no longer sees this join.
      val limited = if (OperatorKinds.areIn(plan)) withoutPushedLimits(plan) else plan
      val joined = ExtractPythonUDFFromJoinCondition(withoutSubqueries(limited))
      val placed = WatermarkPlacement(joined)
      val recognized = if (SparksBatch.isPlanned(session)) placed else recognize(placed)
      BatchBinding.currentTime(session).fold(recognized)(BatchTime.in(recognized, _))
    }

  /**
   * The limits as the query has them. Spark also pushes them into unions and to the preserved sides
   * of joins, as limits of each task, and does so again later: a barrier keeps them out. Such a
   * task ends once it has enough rows, and a stateful operator in it would not commit its state.
   */
  private def withoutPushedLimits(plan: LogicalPlan): LogicalPlan = plan match {
    case GlobalLimit(_, local @ LocalLimit(_, child)) if child.isStreaming =>
      val limited = local.copy(child = PushdownBarrier(withoutPushedLimits(child)))
      plan.withNewChildren(Seq(limited))
    case LocalLimit(_, child) if child.isStreaming => withoutPushedLimits(child)
    case other => other.mapChildren(withoutPushedLimits)
  }

  private def withoutSubqueries(plan: LogicalPlan): LogicalPlan =
    plan.transformUpWithPruning(_.containsPattern(PLAN_EXPRESSION)) {
      case join: Join
          if StreamJoinType.isStreamJoin(join) &&
            join.condition.exists(SubqueryExpression.hasInOrCorrelatedExistsSubquery) =>
        RewritePredicateSubquery(join)
    }

  private def recognize(plan: LogicalPlan): LogicalPlan = {
    // From the inputs up, because the joins below a join must be known.
    val lineage = WatermarkLineage.within(plan)
    val numbers = OperatorNumbers.ofBatch(session)
    val constants = ConstantBounds.in(PlannedBatch.current(session).fold(plan)(_.query.analyzedPlan))
    var position = 0
    plan.transformUp {
      case NeverTrue(rows) => rows
      case operator if operator.isStreaming =>
        val marked = ConstantBounds.marked(operator, constants.getOrElse(position, Set.empty))
        OperatorKinds.recognize(marked, numbers(position), lineage) match {
          case Recognition.Found(node) =>
            position += 1
            node
          case Recognition.Rejected(what, error) if !isSparks(operator) =>
            RejectedOperator(what, operator.output, operator.children, error)
          case _ => AwaitedColumns(operator, lineage)
        }
    }
  }

  /** Whether Spark runs an operator that streamjoin rejects. */
  private def isSparks(operator: LogicalPlan): Boolean =
    StreamJoinConf.handsOver && operator.isInstanceOf[Join]
}
