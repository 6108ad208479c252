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
import org.apache.spark.sql.streamjoin.state.{ExecutorMemory, JoinState, KeptRows, RowLayout}
import org.apache.spark.sql.types.{BinaryType, BooleanType, IntegerType}
import org.apache.spark.util.SerializableConfiguration
import org.apache.spark.{SparkContext, TaskContext}

import streamjoin.core.Side

/** A state that is written into other stores; it is read on executors and does not change. */
private[streamjoin] trait StateToRewrite extends Serializable {

  /** The number of its partitions. */
  def partitions: Int

  /** By input: what all stores say of its rows; empty if no store has any. */
  def headers(hadoopConf: Configuration): Seq[SideHeader]

  /**
   * The rows of a partition, each overwritten by the next one.
   *
   * @param into
   *   the number of the new partitions
   */
  def rows(partition: Int, into: Int, hadoopConf: Configuration): Iterator[MovedRow]
}

/**
 * A row on its way into another store.
 *
 * @param partition
 *   the new one
 */
final private[streamjoin] case class MovedRow(
    partition: Int,
    part: Int,
    isMatched: Boolean,
    content: Array[Byte]
)

private[streamjoin] object MovedRow {

  /** In place of a side: the row is an entry of the table by key. */
  private[operator] val Table = -1

  /** In place of a side: the row can match nothing, and leaves in the next batch. */
  private[operator] val Leaving = Map[Side, Int](Side.Left -> -2, Side.Right -> -3)

  def buffered(side: Side, partition: Int, row: UnsafeRow, isMatched: Boolean): MovedRow =
    MovedRow(partition, side.index, isMatched, row.getBytes)

  /** @param row of the input, without computed columns */
  def leaving(side: Side, partition: Int, row: UnsafeRow): MovedRow =
    MovedRow(partition, Leaving(side), isMatched = false, row.getBytes)

  /** Where the rows of an input go if all of them stay. */
  def staying(spec: StateSpec, side: Int, into: Int): (UnsafeRow, Boolean) => Option[MovedRow] = {
    val place = spec.placed(side).partition(spec.layouts(side).types, into)
    (row, isMatched) => Some(buffered(Side.both(side), place(row), row, isMatched))
  }

  def ofTable(partition: Int, entry: Array[Byte]): MovedRow =
    MovedRow(partition, Table, isMatched = false, entry)
}

/**
 * Writes the state of an operator into other stores: all of it is read, shuffled and written once.
 * The stores that are read do not change. A row and its flag stay what they are.
 *
 * {{{
 *   old stores -- each row with its new partition -- shuffle -- new stores, version 1
 * }}}
 *
 * @param to
 *   empty
 */
final private[operator] class StateRewrite(
    spec: StateSpec,
    from: StateToRewrite,
    to: StateStores,
    hadoopConf: Broadcast[SerializableConfiguration]
) extends Serializable {
  import StateRewrite._

  /** Returns the ids of the written stores, by partition, where checkpoints have them. */
  def run(context: SparkContext): Seq[String] = {
    // All stores have equal headers, except for widths that their rows have decided.
    val headers =
      context.runJob(context.parallelize(Seq(0), 1), (_: Iterator[Int]) => from.headers(conf)).head
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

  private def rows(partition: Int): Iterator[UnsafeRow] = {
    val made = UnsafeProjection.create(Columns.map(_.dataType).toArray)
    from.rows(partition, to.partitions, conf).map { row =>
      made(InternalRow(row.partition, row.part, row.isMatched, row.content))
    }
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
      firstBatch = NoBatch,
      byLifetimes = spec.byLifetimes
    )
    TaskContext.get().addTaskCompletionListener[Unit](_ => state.close())
    val table = spec.table.map { case (keys, fields) => state.versionTable(keys.size, fields) }
    spec.layouts.indices.zip(headers).foreach { case (side, header) =>
      state.evicted(Side.both(side), header.evictedBelow)
    }
    val row = spec.layouts.map(layout => new UnsafeRow(layout.fields))
    val leaving = MovedRow.Leaving.map(_.swap)
    rows.foreach { moved =>
      val (part, content) = (moved.getInt(1), moved.getBinary(3))
      if (part == MovedRow.Table) table.get.add(content, spec.forgetWithin)
      else if (leaving.contains(part)) state.leaving.add(leaving(part), content)
      else {
        row(part).pointTo(content, content.length)
        state.append(Side.both(part), row(part), moved.getBoolean(2))
      }
    }
    state.commit()
    store.getStateStoreCheckpointInfo().stateStoreCkptId
  }
}

private object StateRewrite {
  private val NoBatch = -1L

  private val Columns = Seq(
    AttributeReference("partition", IntegerType, nullable = false)(),
    AttributeReference("part", IntegerType, nullable = false)(),
    AttributeReference("matched", BooleanType, nullable = false)(),
    AttributeReference("content", BinaryType, nullable = false)()
  )
}

/** In place of the state of an operator that was added to a running query. */
private[operator] object NoState extends StateToRewrite {
  override def partitions: Int = 1
  override def headers(hadoopConf: Configuration): Seq[SideHeader] = Nil
  override def rows(partition: Int, into: Int, hadoopConf: Configuration): Iterator[MovedRow] = Iterator.empty
}

/** The state of one of our operators, at the version of its stores. */
final private[operator] class StoredState(spec: StateSpec, stores: StateStores) extends StateToRewrite {
  override def partitions: Int = stores.partitions

  override def headers(hadoopConf: Configuration): Seq[SideHeader] =
    StoredState.headers(stores, spec.layouts, hadoopConf)

  override def rows(partition: Int, into: Int, hadoopConf: Configuration): Iterator[MovedRow] = {
    val kept = StoredState.open(stores, partition, spec.layouts, hadoopConf)
    val buffered = spec.layouts.indices.iterator.flatMap { side =>
      val mover = MovedRow.staying(spec, side, into)
      kept.buffered(side).flatMap(row => mover(row.row, row.isMatched))
    }
    val byKey = spec.table.iterator.flatMap { case (keys, _) =>
      val place = Placement.ByFields(keys.indices).partition(keys, into)
      kept.entries(keys.size).map { case (key, entry) => MovedRow.ofTable(place(key), entry) }
    }
    buffered ++ byKey
  }
}

private[operator] object StoredState {

  def headers(stores: StateStores, layouts: Seq[RowLayout], hadoopConf: Configuration): Seq[SideHeader] = {
    val opened = stores.openToRead(0, hadoopConf)
    try new KeptRows(opened.store, layouts).headers
    finally opened.close()
  }

  /** The rows of a partition, until the task ends. */
  def open(
      stores: StateStores,
      partition: Int,
      layouts: Seq[RowLayout],
      hadoopConf: Configuration
  ): KeptRows = {
    val opened = stores.openToRead(partition, hadoopConf)
    TaskContext.get().addTaskCompletionListener[Unit](_ => opened.close())
    new KeptRows(opened.store, layouts)
  }
}
