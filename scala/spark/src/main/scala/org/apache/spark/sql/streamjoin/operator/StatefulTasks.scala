package org.apache.spark.sql.streamjoin.operator

import org.apache.hadoop.conf.Configuration

import org.apache.spark.broadcast.Broadcast
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.execution.streaming.operators.stateful.{
  StatefulOpStateStoreCheckpointInfo,
  StatefulOperatorStateInfo
}
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.streamjoin.laterows.LateRowsWriter
import org.apache.spark.sql.streamjoin.observe.collect.{TaskReport, TaskReports}
import org.apache.spark.sql.streamjoin.state.{ExecutorMemory, IndexCache, JoinIndex, JoinState}
import org.apache.spark.util.{CollectionAccumulator, CompletionIterator, SerializableConfiguration}
import org.apache.spark.{Partition, TaskContext}

/**
 * The parts of a stateful operator that its tasks need. It is sent to them in place of the
 * operator, which contains the whole plan below: with many tasks, deserializing the plan would take
 * longer than processing the rows.
 *
 * @param instanceMetrics
 *   metrics of single state stores
 * @param checkpointInfos
 *   reports new checkpoint ids to the driver, if state stores have them
 * @param expiryKeys
 *   number of keys by which rows may expire
 */
final private[streamjoin] class StatefulTasks(
    spec: StateSpec,
    hadoopConf: Broadcast[SerializableConfiguration],
    stores: StateStores,
    metrics: Map[String, SQLMetric],
    instanceMetrics: InstanceMetrics,
    checkpointInfos: Option[CollectionAccumulator[StatefulOpStateStoreCheckpointInfo]],
    reports: TaskReports,
    expiryKeys: Int
) extends Serializable {

  @transient private lazy val taskMetrics: TaskMetrics = new TaskMetrics(metrics)

  /** The output of a task. Once it has been consumed, the state is committed. */
  def run(partition: Int, rows: Seq[Iterator[InternalRow]]): Iterator[InternalRow] = {
    val hadoopConf = this.hadoopConf.value.value
    val begun = System.nanoTime()
    // At the version that the batch starts from.
    val replicated = spec.replicated(partition).map { of =>
      JoinState.ReplicatedSide(of.side, of.cap, stores.read(of.keeper, hadoopConf))
    }
    val store = stores.open(partition, hadoopConf)
    val state = new JoinState(
      store,
      spec.layouts,
      spec.bucketWidths,
      spec.limits.indexMemory,
      IndexCache.take[JoinIndex](stores.id(partition)),
      replicated,
      ExecutorMemory.limit(spec.limits.executorIndexMemory),
      stores.firstBatch,
      spec.byLifetimes
    )
    TaskContext.get().addTaskCompletionListener[Unit] { task =>
      if (task.isFailed() || task.isInterrupted()) state.close()
      else state.leaveOff().foreach(IndexCache.put(stores.id(partition), _))
    }
    metrics("loadTimeMs") += millisSince(begun)

    val lateRows = spec.lateRows.map(new LateRowsWriter(_, partition, hadoopConf))
    TaskContext.get().addTaskCompletionListener[Unit](_ => lateRows.foreach(_.abort()))

    val updating = System.nanoTime()
    val task = spec.task(TaskInputs(partition, rows, state, taskMetrics, lateRows, hadoopConf))
    val numOutputRows = metrics("numOutputRows")
    val output = task.output.map { row =>
      numOutputRows += 1
      row
    }
    CompletionIterator[InternalRow, Iterator[InternalRow]](
      output, {
        task.finish()
        metrics("allUpdatesTimeMs") += millisSince(updating)
        // Before the state is committed, so that a committed state always has its late rows.
        lateRows.foreach(_.commit())
        val report = TaskReport.empty(expiryKeys)
        task.cameIn.copyToArray(report.in)
        report.out = numOutputRows.value
        report.observed = task.observed
        commit(store, partition, state, report, hadoopConf)
        report.millis = millisSince(begun)
        reports.add(partition -> report)
      }
    )
  }

  /** The tasks of an operator with two inputs. */
  def ofTwo: (Int, Iterator[InternalRow], Iterator[InternalRow]) => Iterator[InternalRow] =
    (partition, left, right) => run(partition, Seq(left, right))

  private def millisSince(begun: Long): Long = (System.nanoTime() - begun) / 1000000

  private def commit(
      store: StateStore,
      partition: Int,
      state: JoinState,
      report: TaskReport,
      hadoopConf: Configuration
  ): Unit = {
    val begun = System.nanoTime()
    state.commit()
    stores.reportCommit(partition, store.version + 1, hadoopConf)
    metrics("commitTimeMs") += millisSince(begun)
    spec.count(state, report, taskMetrics)
    val size = state.size
    report.indexBytes = size.index
    metrics("indexBytes") += size.index
    metrics("segmentBytes") += size.stored
    metrics("segments") += size.segments
    metrics("segmentsOnDisk") += size.unloaded
    reportStore(store, size.index)
    // This must be last: from here on, another task may own the index.
    IndexCache.put(stores.id(partition), state.handOver())
  }

  /**
   * Reports a committed store, as `StateStoreWriter.setStoreMetrics` does.
   *
   * @param indexBytes
   *   memory of the task's index, in addition to that of the store
   */
  private def reportStore(store: StateStore, indexBytes: Long): Unit = {
    val storeMetrics = store.metrics
    metrics("stateMemory") += storeMetrics.memoryUsedBytes + indexBytes
    storeMetrics.customMetrics.foreach { case (metric, value) => metrics(metric.name) += value }
    instanceMetrics.report(storeMetrics.instanceMetrics)
    metrics("numStateStoreInstances") += 1
    checkpointInfos.foreach { infos =>
      val info = store.getStateStoreCheckpointInfo()
      infos.add(
        StatefulOpStateStoreCheckpointInfo(
          info.partitionId,
          info.batchVersion + stores.firstBatch,
          info.stateStoreCkptId.map(Array(_)),
          info.baseStateStoreCkptId.map(Array(_))
        )
      )
    }
  }
}

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
