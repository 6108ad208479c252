package org.apache.spark.sql.streamjoin.plans

import org.apache.spark.sql.catalyst.expressions.{Attribute, EqualNullSafe, Expression, Literal, Not}
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, UnaryNode}

/**
 * The rows of a stream without its bounds: rows that only say how far the stream is. It stands above
 * the stream's `EventTimeWatermark`, so that bounds move the watermark.
 *
 * A node of its own and no `Filter`, for Spark would push a filter below the mark
 * (`PushPredicateThroughNonJoin`). It also keeps all filters of the query above itself: most columns
 * of a bound are null, and a filter on one of them would remove the bound before it is seen.
 *
 * @param isBound
 *   a boolean column of the child. A row where it is null is data.
 */
final private[streamjoin] case class DataRows(isBound: Attribute, child: LogicalPlan) extends UnaryNode {
  override def output: Seq[Attribute] = child.output

  /** Of the rows that it hands on. */
  def condition: Expression = Not(EqualNullSafe(isBound, Literal.TrueLiteral))

  override protected def withNewChildInternal(newChild: LogicalPlan): DataRows = copy(child = newChild)
}
