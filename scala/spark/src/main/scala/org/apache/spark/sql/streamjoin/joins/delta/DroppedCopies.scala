package org.apache.spark.sql.streamjoin.joins.delta

import scala.collection.mutable

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical._

/**
 * Finds SQL queries around a delta join that drop the number of copies, `_diff`, without using it:
 * their rows no longer show whether they are added or removed.
 */
private[streamjoin] object DroppedCopies {

  /** The lowest such part of the query. */
  def in(query: LogicalPlan): Option[LogicalPlan] = {
    val search = new DroppedCopies
    search.unused(query): Unit
    search.found
  }

  /**
   * Columns that are a number of copies which nothing has used, and the delta join's own column.
   */
  private type Copies = Map[ExprId, ExprId]
}

final private class DroppedCopies {
  import DroppedCopies.Copies

  private var found = Option.empty[LogicalPlan]

  /** By common table: which of its columns are a number of copies. */
  private val tables = mutable.Map.empty[Long, Seq[Option[ExprId]]]

  private def unused(plan: LogicalPlan): Copies = plan match {
    case join: StreamDeltaJoin => Map(join.output.last.exprId -> join.output.last.exprId)
    case WithCTE(main, definitions) =>
      definitions.foreach { definition =>
        tables(definition.id) = places(definition.child)
      }
      unused(main)
    case reference: CTERelationRef => at(reference.output, tables.getOrElse(reference.cteId, Nil))
    case union: Union => at(union.output, union.children.map(places).transpose.map(_.flatten.headOption))
    case Project(list, child) =>
      val below = unused(child)
      val (passed, others) = list.partition(column => copiesOf(column).exists(below.contains))
      left(plan, below, others, passed.map(column => column.exprId -> below(copiesOf(column).get)).toMap)
    case other =>
      val below = other.children.flatMap(unused).toMap
      val output = other.outputSet.map(_.exprId).toSet
      left(other, below, other.expressions, below.filter { case (column, _) => output(column) })
  }

  private def places(plan: LogicalPlan): Seq[Option[ExprId]] = {
    val copies = unused(plan)
    plan.output.map(column => copies.get(column.exprId))
  }

  private def at(output: Seq[Attribute], places: Seq[Option[ExprId]]): Copies =
    output.zip(places).collect { case (column, Some(copies)) => column.exprId -> copies }.toMap

  /** The column that is passed on unchanged; views cast each column to its own type. */
  private def copiesOf(column: Expression): Option[ExprId] = column match {
    case attribute: Attribute => Some(attribute.exprId)
    case Alias(child, _) => copiesOf(child)
    case cast: Cast if cast.child.dataType == cast.dataType => copiesOf(cast.child)
    case _ => None
  }

  /** The unused columns above a part of the query that uses some columns and passes on others. */
  private def left(plan: LogicalPlan, below: Copies, using: Seq[Expression], passed: Copies): Copies = {
    val used = AttributeSet(using).flatMap(column => below.get(column.exprId)).toSet
    val lost = below.values.toSet -- used -- passed.values
    // A command has no rows of its own.
    if (found.isEmpty && lost.nonEmpty && plan.origin.sqlText.isDefined && !plan.isInstanceOf[Command])
      found = Some(plan)
    passed.filterNot { case (_, copies) => used(copies) }
  }
}
