package org.apache.spark.sql.streamjoin.rules
import org.apache.spark.sql.catalyst.expressions.{AttributeSet, Expression}
import org.apache.spark.sql.catalyst.plans.logical.{Filter, LogicalPlan, Project}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.streamjoin.base.PredicateParts
import org.apache.spark.sql.streamjoin.plans.{AsOfMatch, JoinBarrier, RowtimeOrder}
import org.apache.spark.sql.streamjoin.watermark.IdleAfter

/**
 * Pushes filters through the barriers that need not hold them and, like unused columns, below a
 * rowtime order. In a join with versions, filters on facts are pushed; one on versions would make a
 * fact match another version. Spark calls the rule once per batch, together with its own pushdown
 * rules, which can then push the filters further.
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
