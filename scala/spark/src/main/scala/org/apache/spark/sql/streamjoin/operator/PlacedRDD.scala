package org.apache.spark.sql.streamjoin.operator

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.execution.streaming.operators.stateful.StatefulOperatorStateInfo
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.{Partition, TaskContext}

/**
 * Runs each task of an operator with one input on the executor that has its state store. For two
 * inputs, `StateStoreAwareZipPartitionsRDD` of Spark does this.
 */
final private[operator] class PlacedRDD(
    rows: RDD[InternalRow],
    info: StatefulOperatorStateInfo,
    @transient coordinator: StateStoreCoordinatorRef,
    tasks: StatefulTasks
) extends RDD[InternalRow](rows) {
  override protected def getPartitions: Array[Partition] = rows.partitions

  override protected def getPreferredLocations(partition: Partition): Seq[String] =
    coordinator
      .getLocation(StateStoreProviderId(info, partition.index, StateStoreId.DEFAULT_STORE_NAME))
      .toSeq

  override def compute(partition: Partition, context: TaskContext): Iterator[InternalRow] =
    tasks.run(partition.index, Seq(rows.iterator(partition, context)))
}
