package org.apache.spark.sql.streamjoin.watermark

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.util.DateTimeUtils.microsToMillis
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.streaming.operators.stateful.EventTimeStatsAccum
import org.apache.spark.sql.types.TimestampType

/**
 * Stands below an `EventTimeWatermark` of a column that may be null, where the newest time is noted
 * without the nulls. The strategy puts it there.
 */
final private[streamjoin] case class NewestTime(time: Attribute, child: LogicalPlan) extends UnaryNode {
  override def output: Seq[Attribute] = child.output

  override protected def withNewChildInternal(newChild: LogicalPlan): NewestTime = copy(child = newChild)
}

private[streamjoin] object NewestTime {

  /** A plan with all its marks, noted. */
  def noted(plan: LogicalPlan): LogicalPlan = plan.transform {
    case mark @ EventTimeWatermark(_, time, _, child)
        if time.nullable && time.dataType == TimestampType && !child.isInstanceOf[NewestTime] =>
      mark.copy(child = NewestTime(time, child))
  }
}

/**
 * Hands its rows on and notes the newest event time among them. `EventTimeWatermarkExec` above it
 * does so too, but takes a null for the year 1970: older rows would be late.
 */
final private[streamjoin] case class NewestTimeExec(time: Attribute, child: SparkPlan) extends NotingExec {

  /** In milliseconds, without nulls. */
  val stats: EventTimeStatsAccum = registered(new EventTimeStatsAccum)

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
