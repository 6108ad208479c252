package org.apache.spark.sql.streamjoin.operators

import org.apache.spark.rdd.RDD
import org.apache.spark.scheduler.TaskLocation
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.{Partition, TaskContext}

/**
 * Runs tasks on the executor that holds the index of their partition. Rendezvous hashing assigns
 * each partition an executor, the same for all arrangements; when an executor joins or leaves, few
 * partitions move.
 */
private[streamjoin] object LocalRows {
  def place(rows: RDD[InternalRow]): RDD[InternalRow] = new Placed(rows)

  private class Placed(rows: RDD[InternalRow]) extends RDD[InternalRow](rows) {
    override protected def getPartitions: Array[Partition] = rows.partitions
    override def compute(split: Partition, context: TaskContext): Iterator[InternalRow] =
      rows.iterator(split, context)

    override protected def getPreferredLocations(split: Partition): Seq[String] = {
      // Prefer the executor that has the state store. A shuffle names hosts, those that most of its
      // rows come from.
      val own = rows.preferredLocations(split).filter(_.startsWith(TaskLocation.executorLocationTag))
      if (own.nonEmpty) own else locations.lift(split.index).toSeq
    }

    @transient private lazy val locations: IndexedSeq[String] =
      IndexPlaces.of(sparkContext, rows.getNumPartitions)
  }
}
