package org.apache.spark.sql.streamjoin.execution

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, SortOrder}
import org.apache.spark.sql.catalyst.plans.physical.Partitioning
import org.apache.spark.sql.catalyst.util.DateTimeUtils.microsToMillis
import org.apache.spark.sql.execution.streaming.operators.stateful.EventTimeStatsAccum
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}

/**
 * Hands its rows on and notes the newest event time among them. `EventTimeWatermarkExec` above it does so too, but takes a
 * null for the year 1970: older rows would be late.
 */
final private[streamjoin] case class NewestTimeExec(time: Attribute, child: SparkPlan) extends UnaryExecNode {

  /** In milliseconds, without nulls. */
  val stats: EventTimeStatsAccum = {
    val accumulator = new EventTimeStatsAccum
    sparkContext.register(accumulator)
    accumulator
  }

  override def output: Seq[Attribute] = child.output
  override def outputPartitioning: Partitioning = child.outputPartitioning
  override def outputOrdering: Seq[SortOrder] = child.outputOrdering

  override protected def doExecute(): RDD[InternalRow] = {
    val at = child.output.indexWhere(_.exprId == time.exprId)
    child.execute().mapPartitions { rows =>
      rows.map { row =>
        if (!row.isNullAt(at)) stats.add(microsToMillis(row.getLong(at)))
        row
      }
    }
  }

  override protected def withNewChildInternal(newChild: SparkPlan): NewestTimeExec = copy(child = newChild)
}
