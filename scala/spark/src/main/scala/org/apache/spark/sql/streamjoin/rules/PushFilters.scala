package org.apache.spark.sql.streamjoin.rules
import org.apache.spark.sql.catalyst.expressions.{AttributeSet, Expression}
import org.apache.spark.sql.catalyst.plans.logical.{Filter, LogicalPlan, Project}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.streamjoin.base.PredicateParts
import org.apache.spark.sql.streamjoin.plans.{AsOfMatch, JoinBarrier, RowtimeOrder}
import org.apache.spark.sql.streamjoin.watermark.IdleAfter

/**
 * Filters past the barriers that need not keep them, and below an order of rows; columns too.
 * Filters on facts go below a join with versions; one on versions would make a fact meet another
 * one.
 */
private[streamjoin] object PushFilters extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan.transformDown {
    case IdleAfter(_, child) => child
    case Filter(condition, JoinBarrier(child)) if condition.deterministic =>
      JoinBarrier(Filter(condition, child))
    case Filter(condition, order: RowtimeOrder) if condition.deterministic =>
      order.copy(child = Filter(condition, order.child))
    case Filter(condition, join: AsOfMatch)
        if PredicateParts.conjuncts(condition).exists(isOf(join.left, _)) =>
      val (ofLeft, above) = PredicateParts.conjuncts(condition).partition(isOf(join.left, _))
      val pushed = join.copy(left = PredicateParts.all(ofLeft).fold(join.left)(Filter(_, join.left)))
      PredicateParts.all(above).fold[LogicalPlan](pushed)(Filter(_, pushed))
    case project @ Project(_, order: RowtimeOrder) if unused(project, order).nonEmpty =>
      val dropped = unused(project, order)
      project.copy(child =
        order.copy(child = Project(order.child.output.filterNot(dropped.contains), order.child))
      )
  }

  private def isOf(input: LogicalPlan, conjunct: Expression): Boolean =
    conjunct.deterministic && conjunct.references.nonEmpty && conjunct.references.subsetOf(input.outputSet)

  private def unused(project: Project, order: RowtimeOrder): AttributeSet =
    order.child.outputSet -- project.references -- order.references
}
