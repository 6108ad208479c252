package org.apache.spark.sql.streamjoin.watermark

import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, UnaryNode}

/**
 * The marks below it belong to inputs that are idle once they have had no row for a time. It says
 * so in the analyzed query, where [[WatermarkKeys]] reads it; the optimizer drops it.
 *
 * @param timeoutMs
 *   in milliseconds
 */
final private[streamjoin] case class IdleAfter(timeoutMs: Long, child: LogicalPlan) extends UnaryNode {
  override def output: Seq[Attribute] = child.output

  override protected def withNewChildInternal(newChild: LogicalPlan): IdleAfter = copy(child = newChild)
}
