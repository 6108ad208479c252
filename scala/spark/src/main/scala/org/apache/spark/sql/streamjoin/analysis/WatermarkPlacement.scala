package org.apache.spark.sql.streamjoin.analysis

import org.apache.spark.sql.catalyst.expressions.{
  Expression,
  IsNotNull,
  PlanExpression,
  PythonFuncExpression,
  RuntimeReplaceable,
  With
}
import org.apache.spark.sql.catalyst.optimizer.PushDownPredicates
import org.apache.spark.sql.catalyst.plans.logical.{EventTimeWatermark, Filter, LogicalPlan}
import org.apache.spark.sql.catalyst.trees.TreePattern.CURRENT_LIKE
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streamjoin.base.{AnalyzedPlan, PredicateParts, StreamJoinConf}
import org.apache.spark.sql.streamjoin.plans.WatermarkBarrier

/**
 * Decides which rows move a watermark: those that remain after Spark has pushed filters below it
 * (`PushPredicateThroughNonJoin`). Filters on columns other than the event time are pushed,
 * including those inferred from the other input of a join. Filters are inferred from the query and
 * not from the rows of a batch, so they are the same in every batch.
 *
 * With `spark.streamjoin.watermarkBeforeFilter` all filters stay above.
 */
private[streamjoin] object WatermarkPlacement {

  /** Puts a barrier on each mark of an analyzed query. */
  def keep(query: LogicalPlan): LogicalPlan =
    if (query.exists(_.isInstanceOf[WatermarkBarrier])) query
    else
      AnalyzedPlan.rewrite(query) { case mark: EventTimeWatermark =>
        WatermarkBarrier(mark, mark.constraints.toSeq.filter(says))
      }

  /**
   * Whether the constraint restricts the rows in the same way in every run, and may be part of a
   * plan. Spark also states that a map equals the column computed as it, although maps cannot be
   * compared.
   */
  private def says(constraint: Expression): Boolean = constraint.resolved && !isComputedApart(constraint) &&
    (constraint match {
      case IsNotNull(column) => column.nullable
      case other => !other.containsPattern(CURRENT_LIKE)
    })

  /**
   * Whether Spark would compute a part of it in an operator below the barrier: once more, and
   * between the barrier and the mark.
   */
  private def isComputedApart(constraint: Expression): Boolean = constraint.exists {
    case _: PlanExpression[_] | _: PythonFuncExpression | _: With => true
    case replaced: RuntimeReplaceable => isComputedApart(replaced.replacement)
    case _ => false
  }

  /** Pushes the filters of an optimized query to their final places. */
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
