package org.apache.spark.sql.streamjoin.plans

import org.apache.spark.sql.catalyst.expressions.{Attribute, Expression}
import org.apache.spark.sql.catalyst.plans.logical.{BinaryNode, LogicalPlan}

import streamjoin.core.AsOf

/**
 * Each row of the left input with the row of its key in the right one that was valid at its time,
 * as a query is written; what runs in its place keeps rows until that is known.
 *
 * @param leftTime
 *   an event-time column
 * @param leftKeys
 *   equal to `rightKeys`, one by one; at least one
 * @param operation
 *   a column of the right input that says whether a row is a version or takes its key away, where
 *   not all are versions
 * @param ties
 *   columns of the right input: of two rows with one key and one time, the one that is larger in
 *   the first column in which they differ comes later; in `operation`, that which is no delete.
 *   They are expressions of the node, so that which columns a query selects makes no difference to
 *   which rows meet.
 * @param condition
 *   what the two rows have to satisfy besides, for the left one to have a match
 * @param isLeftOuter
 *   a left row without a match is in the result, with nulls
 * @param ordered
 *   the rows of a batch come in the order of the left time
 */
final private[streamjoin] case class AsOfMatch(
    left: LogicalPlan,
    right: LogicalPlan,
    rule: AsOf,
    leftTime: Attribute,
    rightTime: Attribute,
    leftKeys: Seq[Expression],
    rightKeys: Seq[Expression],
    operation: Option[Attribute],
    ties: Seq[Attribute],
    condition: Option[Expression],
    isLeftOuter: Boolean,
    ordered: Boolean
) extends BinaryNode {
  override def output: Seq[Attribute] =
    left.output ++ (if (isLeftOuter) right.output.map(_.withNullability(true)) else right.output)

  override protected def withNewChildrenInternal(newLeft: LogicalPlan, newRight: LogicalPlan): AsOfMatch =
    copy(left = newLeft, right = newRight)
}
