package org.apache.spark.sql.streamjoin.checkpoint

import org.apache.spark.sql.catalyst.expressions.{Attribute, Expression}
import org.apache.spark.sql.catalyst.plans.logical.{BinaryNode, LogicalPlan, UnaryNode}
import org.apache.spark.sql.streamjoin.analysis.NormalForm
import org.apache.spark.sql.streamjoin.state.RowLayout
import org.apache.spark.sql.types.{StructField, StructType}

/** Describes the rows that an operator stores of an input. */
private[streamjoin] object RowsOfInput {

  /**
   * @param stored
   *   columns of a stored row, which begin with those of the input
   * @param deciding
   *   the expressions that decide what a row matches and when it leaves
   */
  def apply(
      input: LogicalPlan,
      stored: Seq[Attribute],
      layout: RowLayout,
      deciding: Seq[Expression]
  ): RecordedRows = {
    val output = input.output
    val required = output.filter(column => !column.nullable && mayBeNullBelow(column, input))
    val used = deciding.flatMap(_.references).map(_.exprId).toSet ++ required.map(_.exprId)
    RecordedRows(
      StructType(stored.zipWithIndex.map { case (column, at) =>
        val isNullable = column.nullable || at < output.size && required.exists(_.exprId == column.exprId)
        StructField(name(column, input), column.dataType, isNullable)
      }),
      output.size,
      layout.keys.toSeq,
      layout.times.toSeq,
      layout.expiring.toSeq,
      output.filter(column => used(column.exprId)).map(name(_, input)).distinct
    )
  }

  /**
   * The name of a column, and from which side of each join below it comes: another column that has
   * the name in a changed query is not taken for it.
   */
  def name(column: Attribute, plan: LogicalPlan): String = plan match {
    case join: BinaryNode =>
      Seq("left" -> join.left, "right" -> join.right)
        .collectFirst { case (side, input) if has(input, column) => s"$side.${name(column, input)}" }
        .getOrElse(NormalForm.lasting(column.name))
    case node: UnaryNode if has(node.child, column) => name(column, node.child)
    case _ => NormalForm.lasting(column.name)
  }

  private def has(plan: LogicalPlan, column: Attribute): Boolean =
    plan.output.exists(_.exprId == column.exprId)

  /** Whether a filter below removes the rows in which a column is null. */
  private def mayBeNullBelow(column: Attribute, plan: LogicalPlan): Boolean = plan match {
    case node: UnaryNode =>
      node.child.output.find(_.exprId == column.exprId).exists { below =>
        below.nullable || mayBeNullBelow(column, node.child)
      }
    case _ => false
  }
}
