package org.apache.spark.sql.streamjoin.analysis

import org.apache.spark.sql.catalyst.expressions.{Alias, Attribute, NamedExpression}
import org.apache.spark.sql.catalyst.plans.logical.{Aggregate, LogicalPlan, Project, Window}
import org.apache.spark.sql.types.MetadataBuilder

/**
 * A stream that is joined with itself: both inputs read the same columns, and only aliases tell
 * them apart. Spark leaves such aliases in place below a `Join`, but takes them off below any other
 * node (`RemoveRedundantAliases`). It keeps an alias that has metadata of its own.
 */
private[streamjoin] object SharedColumns {
  private val Apart = "streamjoin.apart"

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
    case alias @ Alias(column: Attribute, name) if name == column.name =>
      val metadata = new MetadataBuilder().withMetadata(alias.metadata).putBoolean(Apart, true).build()
      Alias(column, name)(alias.exprId, alias.qualifier, Some(metadata), alias.nonInheritableMetadataKeys)
    case other => other
  }
}
