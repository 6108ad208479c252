package org.apache.spark.sql.streamjoin.analysis

import org.apache.spark.sql.catalyst.expressions.{Alias, Attribute, Cast, Expression, NamedExpression}
import org.apache.spark.sql.catalyst.plans.logical.{Aggregate, LogicalPlan, Project, Window}
import org.apache.spark.sql.streamjoin.base.AnalyzedPlan
import org.apache.spark.sql.streamjoin.plans.{AsOfMatch, TableRematch}
import org.apache.spark.sql.types.MetadataBuilder

/**
 * A stream that is joined with itself: both inputs read the same columns, and only aliases tell
 * them apart. Spark leaves such aliases in place below a `Join`, but takes them off below any other
 * node (`RemoveRedundantAliases`). It keeps an alias that has metadata of its own.
 */
private[streamjoin] object SharedColumns {
  private val Apart = "streamjoin.apart"

  /** In a query the inputs of our own joins, which Spark does not know as joins. */
  def keepApart(query: LogicalPlan): LogicalPlan = AnalyzedPlan.rewrite(query) {
    case join @ (_: AsOfMatch | _: TableRematch) =>
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

  /** Views cast each of their columns, also where it has the type. */
  private def isNamed(expression: Expression, name: String): Boolean = expression match {
    case column: Attribute => column.name == name
    case cast: Cast => isNamed(cast.child, name)
    case _ => false
  }
}
