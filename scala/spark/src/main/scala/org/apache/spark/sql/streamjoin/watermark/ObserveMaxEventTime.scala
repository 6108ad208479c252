package org.apache.spark.sql.streamjoin.watermark

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, SortOrder}
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.plans.physical.Partitioning
import org.apache.spark.sql.catalyst.util.DateTimeUtils.microsToMillis
import org.apache.spark.sql.execution.streaming.operators.stateful.EventTimeStatsAccum
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}
import org.apache.spark.sql.streamjoin.base.OwnExec
import org.apache.spark.sql.types.TimestampType
import org.apache.spark.util.AccumulatorV2

/**
 * Records the newest time, ignoring nulls, below an `EventTimeWatermark` of a nullable column. The
 * strategy inserts it.
 */
final private[streamjoin] case class ObserveMaxEventTime(time: Attribute, child: LogicalPlan)
    extends UnaryNode {
  override def output: Seq[Attribute] = child.output

  override protected def withNewChildInternal(newChild: LogicalPlan): ObserveMaxEventTime =
    copy(child = newChild)
}

private[streamjoin] object ObserveMaxEventTime {

  /** Inserts the node below each mark that needs it. */
  def noted(plan: LogicalPlan): LogicalPlan = plan.transform {
    case mark @ EventTimeWatermark(_, time, _, child)
        if time.nullable && time.dataType == TimestampType && !child.isInstanceOf[ObserveMaxEventTime] =>
      mark.copy(child = ObserveMaxEventTime(time, child))
  }
}

/**
 * Passes rows through and records their newest event time. `EventTimeWatermarkExec` above it also
 * does this, but treats a null as the year 1970, which would make older rows late.
 */
final private[streamjoin] case class NewestTimeExec(time: Attribute, child: SparkPlan)
    extends EventTimeObserverExec {

  /** In milliseconds, without nulls. */
  val stats: EventTimeStatsAccum = registered(new EventTimeStatsAccum)

  override protected def doExecute(): RDD[InternalRow] = {
    val at = child.output.indexWhere(_.exprId == time.exprId)
    val stats = this.stats
    child.execute().mapPartitionsInternal { rows =>
      rows.map { row =>
        if (!row.isNullAt(at)) stats.add(microsToMillis(row.getLong(at)))
        row
      }
    }
  }

  override protected def withNewChildInternal(newChild: SparkPlan): NewestTimeExec = copy(child = newChild)
}

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
