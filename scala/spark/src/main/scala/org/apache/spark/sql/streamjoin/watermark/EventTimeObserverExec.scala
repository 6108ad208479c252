package org.apache.spark.sql.streamjoin.watermark

import org.apache.spark.sql.catalyst.expressions.{Attribute, SortOrder}
import org.apache.spark.sql.catalyst.plans.physical.Partitioning
import org.apache.spark.sql.execution.UnaryExecNode
import org.apache.spark.sql.streamjoin.base.OwnExec
import org.apache.spark.util.AccumulatorV2

/** Passes rows through and records something about them for the driver. */
private[streamjoin] trait EventTimeObserverExec extends UnaryExecNode with OwnExec {
  override def output: Seq[Attribute] = child.output
  override def outputPartitioning: Partitioning = child.outputPartitioning
  override def outputOrdering: Seq[SortOrder] = child.outputOrdering

  final protected def registered[A <: AccumulatorV2[_, _]](accumulator: A): A = {
    sparkContext.register(accumulator)
    accumulator
  }
}
