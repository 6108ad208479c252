package org.apache.spark.sql.streamjoin.analysis

import org.apache.spark.sql.catalyst.expressions.Literal.FalseLiteral
import org.apache.spark.sql.catalyst.expressions.{Alias, Attribute, Expression, Literal, NamedExpression}
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.trees.TreeNodeTag
import org.apache.spark.sql.streamjoin.plans.Barrier

import streamjoin.core.{JoinType, Side}

/**
 * Reduces a join whose condition is never true (`AND 1 = 0`) to its output: the rows of a preserved
 * side, unmatched and without delay. Nothing is buffered.
 */
private[streamjoin] object NeverTrue {

  def unapply(plan: LogicalPlan): Option[LogicalPlan] = plan match {
    case join: Join if StreamJoinType.isStreamJoin(join) =>
      val never = join.condition.exists(isNever) || join.children.exists(hasNoRows)
      Option.when(never) {
        val left = rows(join)
        left.setTagValue(InPlaceOfJoin, ())
        left
      }
    case _ => None
  }

  private val InPlaceOfJoin = TreeNodeTag[Unit]("streamjoin.inPlaceOfJoin")

  /** Whether the plan is the remainder of such a join. */
  def isInPlaceOfJoin(plan: LogicalPlan): Boolean = plan.getTagValue(InPlaceOfJoin).isDefined

  private def isNever(condition: Expression): Boolean = condition match {
    case FalseLiteral | Literal(null, _) => true
    case _ => false
  }

  /**
   * Whether the input is empty in every batch: Spark has pushed the condition into it and kept the
   * filter there (`PruneFilters`).
   */
  private def hasNoRows(plan: LogicalPlan): Boolean = plan match {
    case Filter(condition, child) => isNever(condition) || hasNoRows(child)
    case _: Project | _: EventTimeWatermark | _: Barrier => plan.children.exists(hasNoRows)
    case union: Union => union.children.forall(hasNoRows)
    case _ => false
  }

  private def rows(join: Join): LogicalPlan = StreamJoinType.of(join.joinType).get match {
    case JoinType.LeftAnti => Project(join.left.output, join.left)
    case joinType =>
      Side.both.filter(joinType.pads) match {
        case Seq() => LocalRelation(join.output, isStreaming = true)
        case Seq(side) => padded(join, side)
        case _ =>
          // A union has the columns of its first branch, so the second branch needs others.
          val second = padded(join, Side.Right)
          Union(
            Seq(
              padded(join, Side.Left),
              Project(second.output.map(column => Alias(column, column.name)()), second)
            )
          )
      }
  }

  private def padded(join: Join, side: Side): Project = {
    def column(attribute: Attribute, own: Boolean): NamedExpression =
      if (own) attribute
      else Alias(Literal(null, attribute.dataType), attribute.name)(attribute.exprId, attribute.qualifier)
    Project(
      join.left.output.map(column(_, own = side == Side.Left)) ++ join.right.output
        .map(column(_, own = side == Side.Right)),
      if (side == Side.Left) join.left else join.right
    )
  }
}
