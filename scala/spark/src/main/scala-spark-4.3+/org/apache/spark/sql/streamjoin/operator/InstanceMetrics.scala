package org.apache.spark.sql.streamjoin.operator

import org.apache.spark.sql.execution.streaming.operators.stateful.StateStoreWriter
import org.apache.spark.sql.execution.streaming.state.StateStoreInstanceMetric

/** Metrics of single state stores of an operator, which its tasks update. */
final private[operator] class InstanceMetrics(operator: StateStoreWriter) extends Serializable {
  private val metrics = operator.instanceMetricsAccumulator

  /** As `StateStoreWriter.setStoreInstanceMetrics` does. */
  def set(ofStore: Map[StateStoreInstanceMetric, Long]): Unit =
    ofStore.keys.headOption.flatMap(_.partitionId).foreach(partition => metrics.add(partition -> ofStore))
}
