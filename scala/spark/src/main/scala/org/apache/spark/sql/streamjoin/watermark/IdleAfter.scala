package org.apache.spark.sql.streamjoin.watermark

import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, UnaryNode}

/**
 * Declares that the inputs marked below become idle after some time without rows. [[WatermarkKeys]]
 * reads it in the analyzed query; the optimizer drops it.
 *
 * @param timeoutMs
 *   idle timeout, in milliseconds
 */
final private[streamjoin] case class IdleAfter(timeoutMs: Long, child: LogicalPlan) extends UnaryNode {
  override def output: Seq[Attribute] = child.output

  override protected def withNewChildInternal(newChild: LogicalPlan): IdleAfter = copy(child = newChild)
}
