package org.apache.spark.sql.streamjoin.joins.order

import org.apache.spark.sql.Column
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.functions.lit
import org.apache.spark.sql.streamjoin.analysis.Recognizer
import org.apache.spark.sql.streamjoin.batch.BatchBinding
import org.apache.spark.sql.streamjoin.checkpoint.InputOutline
import org.apache.spark.sql.streamjoin.operator.OperatorKind.Planned
import org.apache.spark.sql.streamjoin.operator.{OperatorKind, RowtimeSort}

/** The ordering of rows by time: recognized by [[RecognizeOrder]], planned here. */
private[streamjoin] object OrderKind extends OperatorKind {
  override val name: String = "rowtime_order"

  override val nodeName: String = "StreamRowtimeOrder"

  override def whyLeft(input: InputOutline, matchedIn: Column): Column = lit("it was emitted.")

  override def recognizer: Recognizer = RecognizeOrder

  override def plan(binding: Option[BatchBinding], planLater: LogicalPlan => SparkPlan): Planned = {
    case order: StreamOrder =>
      val exec = StreamOrderExec(order.times, order.plan, binding, planLater(order.child))
      RowtimeSort(exec, exec.times.head, exec.ranges)
  }
}
