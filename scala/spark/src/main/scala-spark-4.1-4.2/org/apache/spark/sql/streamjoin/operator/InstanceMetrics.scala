package org.apache.spark.sql.streamjoin.operator

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.execution.streaming.operators.stateful.StateStoreWriter
import org.apache.spark.sql.execution.streaming.state.StateStoreInstanceMetric

/**
 * Metrics of single state stores of an operator. Each task reports those of its store, and the
 * driver sets them. Spark's own operators send the metrics of all stores to each task, so the work
 * grows with the square of the number of partitions; Spark 4.3 does it as we do.
 */
final private[operator] class InstanceMetrics(@transient operator: StateStoreWriter) extends Serializable {
  private val reported =
    operator.session.sparkContext.collectionAccumulator[(StateStoreInstanceMetric, Long)]

  /** Called by a task. */
  def report(ofStore: Map[StateStoreInstanceMetric, Long]): Unit = ofStore.foreach(reported.add)

  /**
   * Called by the driver once the tasks are over. As `StateStoreWriter.setStoreInstanceMetrics`
   * does.
   */
  def set(): Unit = reported.value.asScala.foreach { case (metric, value) =>
    val ofOperator = operator.instanceMetrics(metric)
    ofOperator.set(metric.combine(ofOperator, value))
  }
}
