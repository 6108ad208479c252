package org.apache.spark.sql.streamjoin.joins.table

import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.catalyst.expressions.{Attribute, Expression}
import org.apache.spark.sql.catalyst.plans.logical.{BinaryNode, Join, JoinHint, LogicalPlan}
import org.apache.spark.sql.catalyst.plans.{JoinType, LeftOuter}
import org.apache.spark.sql.streamjoin.plans.PendingOperator

/**
 * An outer join of a stream with a table, as written in a query: a stream row without a match may
 * match a row that is added to the table later. The operator that replaces it buffers such rows.
 *
 * @param time
 *   event-time column of the stream
 * @param rematch
 *   how long an unmatched row is kept, in microseconds of event time
 */
final private[streamjoin] case class TableRematch(
    left: LogicalPlan,
    right: LogicalPlan,
    joinType: JoinType,
    condition: Option[Expression],
    time: Attribute,
    rematch: Long
) extends BinaryNode
    with PendingOperator {
  override def output: Seq[Attribute] = TableRematch.output(left, right, joinType)

  def join: Join = Join(left, right, joinType, condition, JoinHint.NONE)

  override protected def withNewChildrenInternal(newLeft: LogicalPlan, newRight: LogicalPlan): TableRematch =
    copy(left = newLeft, right = newRight)

  override def disabled: AnalysisException =
    TableJoin.rejected(TableJoin.tableIn(this).get, "STREAMJOIN_TABLE.REMATCH_DISABLED")
}

private[streamjoin] object TableRematch {

  /** The columns of the table are null in an unmatched row. */
  def output(left: LogicalPlan, right: LogicalPlan, joinType: JoinType): Seq[Attribute] =
    if (joinType == LeftOuter) left.output ++ right.output.map(_.withNullability(true))
    else left.output.map(_.withNullability(true)) ++ right.output
}
