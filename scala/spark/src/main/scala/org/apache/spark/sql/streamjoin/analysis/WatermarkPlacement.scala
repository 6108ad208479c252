package org.apache.spark.sql.streamjoin.analysis

import org.apache.spark.sql.catalyst.expressions.{Expression, IsNotNull, PlanExpression}
import org.apache.spark.sql.catalyst.optimizer.PushDownPredicates
import org.apache.spark.sql.catalyst.plans.logical.{EventTimeWatermark, Filter, LogicalPlan}
import org.apache.spark.sql.catalyst.trees.TreePattern.CURRENT_LIKE
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streamjoin.base.{AnalyzedPlan, PredicateParts, StreamJoinConf}
import org.apache.spark.sql.streamjoin.plans.WatermarkBarrier

/**
 * Which rows move a watermark: those that are left once Spark has pushed filters below it
 * (`PushPredicateThroughNonJoin`). A filter on other columns than the event time goes below, also
 * one that follows from the other input of a join. What follows is worked out from the query and
 * not from the rows of a batch, so it is the same in every batch.
 *
 * With `spark.streamjoin.watermarkBeforeFilter` all filters stay above.
 */
private[streamjoin] object WatermarkPlacement {

  /** The analyzed query with a barrier on each of its marks. */
  def keep(query: LogicalPlan): LogicalPlan =
    if (query.exists(_.isInstanceOf[WatermarkBarrier])) query
    else
      AnalyzedPlan.rewrite(query) { case mark: EventTimeWatermark =>
        WatermarkBarrier(mark, mark.constraints.toSeq.filter(says))
      }

  /** It says something about the rows, in every run. */
  private def says(constraint: Expression): Boolean = constraint match {
    case IsNotNull(column) => column.nullable
    case other => !other.exists(_.isInstanceOf[PlanExpression[_]]) && !other.containsPattern(CURRENT_LIKE)
  }

  /** The optimized query with its filters where they stay. */
  def apply(plan: LogicalPlan): LogicalPlan =
    if (SQLConf.get.getConf(StreamJoinConf.WatermarkBeforeFilter)) plan
    else
      plan.transformUp { case Filter(condition, WatermarkBarrier(mark: EventTimeWatermark, known)) =>
        val (below, above) = PredicateParts
          .conjuncts(condition)
          .partition(conjunct => conjunct.deterministic && !conjunct.references.contains(mark.eventTime))
        def filtered(conjuncts: Seq[Expression], child: LogicalPlan): LogicalPlan =
          PredicateParts.all(conjuncts).fold(child)(Filter(_, child))
        val placed = mark.copy(child = PushDownPredicates(filtered(below, mark.child)))
        filtered(above, WatermarkBarrier(placed, known))
      }
}
