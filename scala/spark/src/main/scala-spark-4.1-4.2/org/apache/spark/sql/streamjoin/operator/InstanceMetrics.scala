package org.apache.spark.sql.streamjoin.operator

import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.execution.streaming.operators.stateful.StateStoreWriter
import org.apache.spark.sql.execution.streaming.state.StateStoreInstanceMetric

/** Metrics of single state stores of an operator, which its tasks update. */
final private[operator] class InstanceMetrics(operator: StateStoreWriter) extends Serializable {
  private val metrics: Map[StateStoreInstanceMetric, SQLMetric] = operator.instanceMetrics

  /** As `StateStoreWriter.setStoreInstanceMetrics` does. */
  def set(ofStore: Map[StateStoreInstanceMetric, Long]): Unit = ofStore.foreach { case (metric, value) =>
    metrics(metric).set(metric.combine(metrics(metric), value))
  }
}
