package org.apache.spark.sql.streamjoin.analysis

import org.apache.spark.sql.catalyst.expressions.{Alias, Attribute, Cast, Expression, NamedExpression}
import org.apache.spark.sql.catalyst.plans.logical.{Aggregate, LogicalPlan, Project, Window}
import org.apache.spark.sql.streamjoin.base.AnalyzedPlan
import org.apache.spark.sql.streamjoin.plans.PendingOperator
import org.apache.spark.sql.types.MetadataBuilder

/**
 * Keeps the inputs of a self-join distinct. Both read the same columns, and only aliases
 * distinguish them. Spark keeps such aliases below a `Join`, but removes them below any other node
 * (`RemoveRedundantAliases`), unless they have metadata of their own.
 */
private[streamjoin] object SharedColumns {
  private val Apart = "streamjoin.apart"

  /** Rewrites the inputs of our own joins, which Spark does not know as joins. */
  def keepApart(query: LogicalPlan): LogicalPlan = AnalyzedPlan.rewrite(query) {
    case join: PendingOperator if join.children.size == 2 =>
      val (left, right) = keepApart(join.children.head, join.children(1))
      join.withNewChildren(Seq(left, right))
  }

  def keepApart(left: LogicalPlan, right: LogicalPlan): (LogicalPlan, LogicalPlan) =
    if (columns(left).exists(columns(right))) (withLastingAliases(left), withLastingAliases(right))
    else (left, right)

  private def columns(plan: LogicalPlan) = plan.collectLeaves().flatMap(_.output).map(_.exprId).toSet

  private def withLastingAliases(plan: LogicalPlan): LogicalPlan = plan.transform {
    case project: Project => project.copy(projectList = project.projectList.map(lasting))
    case aggregate: Aggregate =>
      aggregate.copy(aggregateExpressions = aggregate.aggregateExpressions.map(lasting))
    case window: Window => window.copy(windowExpressions = window.windowExpressions.map(lasting))
  }

  private def lasting(expression: NamedExpression): NamedExpression = expression match {
    case alias @ Alias(child, name) if isNamed(child, name) =>
      val metadata = new MetadataBuilder().withMetadata(alias.metadata).putBoolean(Apart, true).build()
      Alias(child, name)(alias.exprId, alias.qualifier, Some(metadata), alias.nonInheritableMetadataKeys)
    case other => other
  }

  /** A view casts each of its columns, even to the column's own type. */
  private def isNamed(expression: Expression, name: String): Boolean = expression match {
    case column: Attribute => column.name == name
    case cast: Cast => isNamed(cast.child, name)
    case _ => false
  }
}
