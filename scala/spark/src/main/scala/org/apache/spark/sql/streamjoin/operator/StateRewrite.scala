package org.apache.spark.sql.streamjoin.operator

import org.apache.hadoop.conf.Configuration

import org.apache.spark.broadcast.Broadcast
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{
  AttributeReference,
  DirectShufflePartitionID,
  UnsafeProjection,
  UnsafeRow
}
import org.apache.spark.sql.catalyst.plans.physical.ShufflePartitionIdPassThrough
import org.apache.spark.sql.execution.exchange.ShuffleExchangeExec
import org.apache.spark.sql.execution.metric.{SQLShuffleReadMetricsReporter, SQLShuffleWriteMetricsReporter}
import org.apache.spark.sql.execution.{ShuffledRowRDD, UnsafeRowSerializer}
import org.apache.spark.sql.streamjoin.state.SegmentFormat.SideHeader
import org.apache.spark.sql.streamjoin.state.{ExecutorMemory, JoinState, KeptRows}
import org.apache.spark.sql.types.{BinaryType, BooleanType, IntegerType}
import org.apache.spark.util.SerializableConfiguration
import org.apache.spark.{SparkContext, TaskContext}

import streamjoin.core.Side

/**
 * Writes the state of an operator into other stores: all of it is read, shuffled and written once.
 * The stores that are read do not change. A row and its flag stay what they are.
 *
 * {{{
 *   old stores -- each row with its new partition -- shuffle -- new stores, version 1
 * }}}
 *
 * @param from
 *   at the version to read
 * @param to
 *   empty
 */
final private[operator] class StateRewrite(
    spec: StateSpec,
    from: StateStores,
    to: StateStores,
    hadoopConf: Broadcast[SerializableConfiguration]
) extends Serializable {
  import StateRewrite._

  /** Returns the ids of the written stores, by partition, where checkpoints have them. */
  def run(context: SparkContext): Seq[String] = {
    // All stores have equal headers.
    val headers =
      context.runJob(context.parallelize(Seq(0), 1), (_: Iterator[Int]) => read(0)(_.headers)).head
    val moved = context.parallelize(0 until from.partitions, from.partitions).mapPartitions(_.flatMap(rows))
    val partitioning = ShufflePartitionIdPassThrough(DirectShufflePartitionID(Columns.head), to.partitions)
    val shuffle = ShuffleExchangeExec.prepareShuffleDependency(
      moved.asInstanceOf[RDD[InternalRow]],
      Columns,
      partitioning,
      new UnsafeRowSerializer(Columns.size),
      SQLShuffleWriteMetricsReporter.createShuffleWriteMetrics(context)
    )
    val shuffled =
      new ShuffledRowRDD(shuffle, SQLShuffleReadMetricsReporter.createShuffleReadMetrics(context))
    val written = context.runJob(
      shuffled,
      (task: TaskContext, rows: Iterator[InternalRow]) => write(task.partitionId(), rows, headers)
    )
    if (written.forall(_.isDefined)) written.flatten.toSeq else Nil
  }

  private def conf: Configuration = hadoopConf.value.value

  private def read[T](partition: Int)(use: KeptRows => T): T = {
    val opened = from.openToRead(partition, conf)
    try {
      val kept = new KeptRows(opened.store, spec.layouts)
      try use(kept)
      finally kept.close()
    } finally opened.close()
  }

  /** The rows of an old store, each overwritten by the next one. */
  private def rows(partition: Int): Iterator[UnsafeRow] = {
    val opened = from.openToRead(partition, conf)
    val kept = new KeptRows(opened.store, spec.layouts)
    TaskContext.get().addTaskCompletionListener[Unit] { _ =>
      kept.close()
      opened.close()
    }
    val made = UnsafeProjection.create(Columns.map(_.dataType).toArray)
    val buffered = spec.layouts.indices.iterator.flatMap { side =>
      val place = spec.placed(side).partition(spec.layouts(side).types, to.partitions)
      kept.buffered(side).map(row => InternalRow(place(row.row), side, row.isMatched, row.row.getBytes))
    }
    val byKey = spec.table.iterator.flatMap { case (keys, _) =>
      val place = Placement.ByFields(keys.indices).partition(keys, to.partitions)
      kept.entries(keys.size).map { case (key, entry) => InternalRow(place(key), Table, false, entry) }
    }
    (buffered ++ byKey).map(made(_))
  }

  /** Writes a new store; returns its id, if it has one. */
  private def write(
      partition: Int,
      rows: Iterator[InternalRow],
      headers: Seq[SideHeader]
  ): Option[String] = {
    val store = to.open(partition, conf)
    val state = new JoinState(
      store,
      spec.layouts,
      if (headers.isEmpty) spec.bucketWidths else headers.map(_.bucketWidth),
      spec.limits.indexMemory,
      cached = None,
      executor = ExecutorMemory.limit(spec.limits.executorIndexMemory),
      // A segment does not tell any longer which batch wrote a row.
      firstBatch = NoBatch
    )
    TaskContext.get().addTaskCompletionListener[Unit](_ => state.close())
    val table = spec.table.map { case (keys, fields) => state.versionTable(keys.size, fields) }
    spec.layouts.indices.zip(headers).foreach { case (side, header) =>
      state.evicted(Side.both(side), header.evictedBelow)
    }
    val row = spec.layouts.map(layout => new UnsafeRow(layout.fields))
    rows.foreach { moved =>
      val (side, content) = (moved.getInt(1), moved.getBinary(3))
      if (side == Table) table.get.add(content, spec.forgetWithin)
      else {
        row(side).pointTo(content, content.length)
        state.append(Side.both(side), row(side), moved.getBoolean(2))
      }
    }
    state.commit()
    store.getStateStoreCheckpointInfo().stateStoreCkptId
  }
}

private object StateRewrite {

  /** In place of a side: the row is an entry of the table by key. */
  private val Table = -1

  private val NoBatch = -1L

  private val Columns = Seq(
    AttributeReference("partition", IntegerType, nullable = false)(),
    AttributeReference("side", IntegerType, nullable = false)(),
    AttributeReference("matched", BooleanType, nullable = false)(),
    AttributeReference("content", BinaryType, nullable = false)()
  )
}
