package org.apache.spark.sql.streamjoin.operator

import org.apache.spark.sql.execution.streaming.operators.stateful.StateStoreWriter
import org.apache.spark.sql.execution.streaming.state.StateStoreInstanceMetric

/** Metrics of single state stores of an operator, which its tasks report. */
final private[operator] class InstanceMetrics(operator: StateStoreWriter) extends Serializable {
  private val metrics = operator.instanceMetricsAccumulator

  /** Called by a task. As `StateStoreWriter.setStoreInstanceMetrics` does. */
  def report(ofStore: Map[StateStoreInstanceMetric, Long]): Unit =
    ofStore.keys.headOption.flatMap(_.partitionId).foreach(partition => metrics.add(partition -> ofStore))

  /** Called by the driver once the tasks are over: Spark reads what they have reported. */
  def set(): Unit = ()
}
