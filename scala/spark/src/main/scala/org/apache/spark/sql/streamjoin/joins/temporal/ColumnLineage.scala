package org.apache.spark.sql.streamjoin.joins.temporal

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, Project}

/** From which columns, or fields, below the projections of a plan its columns are taken. */
final private[temporal] class ColumnLineage(plan: LogicalPlan) {
  private val origins: AttributeMap[Expression] = AttributeMap(plan.collect { case Project(list, _) =>
    list.flatMap {
      case alias: Alias =>
        passedOn(alias.child).filterNot(_.references.contains(alias.toAttribute)).map(alias.toAttribute -> _)
      case _ => None
    }
  }.flatten)

  /** What a column, or a field of one, is at each level, from the plan's output downwards. */
  def of(column: Expression): Seq[Expression] =
    Iterator
      .iterate(Option(column))(_.flatMap(below))
      .takeWhile(_.isDefined)
      .flatten
      .toSeq

  private def below(column: Expression): Option[Expression] = column match {
    case attribute: Attribute => origins.get(attribute)
    case field: GetStructField => below(field.child).map(child => field.copy(child = child))
    case _ => None
  }

  /** A view casts each of its columns to the type that it has. */
  private def passedOn(value: Expression): Option[Expression] = value match {
    case column: Attribute => Some(column)
    case field: GetStructField => passedOn(field.child).map(child => field.copy(child = child))
    case cast: Cast if cast.child.dataType == cast.dataType => passedOn(cast.child)
    case alias: Alias => passedOn(alias.child)
    case _ => None
  }
}
