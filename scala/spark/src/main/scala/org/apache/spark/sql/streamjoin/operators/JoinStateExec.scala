package org.apache.spark.sql.streamjoin.operators

import org.apache.hadoop.conf.Configuration

import org.apache.spark.TaskContext
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.execution.streaming.operators.stateful._
import org.apache.spark.sql.execution.streaming.operators.stateful.join.StreamingSymmetricHashJoinHelper._
import org.apache.spark.sql.execution.streaming.state.StateStore
import org.apache.spark.sql.streamjoin.state._
import org.apache.spark.sql.types.StructType
import org.apache.spark.util.CompletionIterator

/** How a task opens its [[JoinState]]. */
private[operators] trait StateSpec {

  /** Row layouts of the left and the right input. */
  def layouts: Seq[RowLayout]

  /** Bucket widths of the left and the right input, in microseconds. */
  def bucketWidths: Seq[Long]

  /** Memory limit of the task's index, in bytes. */
  def indexMemory: Long

  /** Memory limit of all indexes of an executor, in bytes, if it is set. */
  def executorIndexMemory: Option[Long]

  /** Where to write late rows, if they are kept. */
  def lateRows: Option[LateRows.Spec]
}

/** The work of one task in one batch. */
private[operators] trait StateTask {
  def output: Iterator[InternalRow]

  /** Finishes the batch and its metrics, once the output is consumed. */
  def finish(): Unit
}

/** An operator whose tasks each keep rows in a [[JoinState]]. */
private[streamjoin] trait JoinStateExec extends StatefulNodeExec {

  /** Names and descriptions of its metrics, in addition to those of the state. */
  protected def ownMetrics: Seq[(String, String)]

  /** Counts the rows of a committed state and adds to [[lowestTimes]]. */
  protected def countRows(state: JoinState): Unit

  final override protected def storeSchema: (StructType, StructType) =
    (SegmentStore.KeySchema, SegmentStore.ValueSchema)

  final override protected def customStatefulOperatorMetrics: Seq[StatefulOperatorCustomMetric] =
    (ownMetrics ++ StateMetric.all).map { case (name, text) => StatefulOperatorCustomSumMetric(name, text) }

  /** Zips two inputs by task; each task runs where its state store is. */
  final protected def zipped(left: RDD[InternalRow], right: RDD[InternalRow])(
      run: (Int, Iterator[InternalRow], Iterator[InternalRow]) => Iterator[InternalRow]
  ): RDD[InternalRow] = left.stateStoreAwareZipPartitions(
    right,
    getStateInfo,
    stateStoreNames,
    session.sessionState.streamingQueryManager.stateStoreCoordinator
  )(run)

  /**
   * The output of a task. Once it is consumed, the state is committed.
   *
   * @param guest
   *   a side that another task keeps
   */
  final protected def runTask(
      spec: StateSpec,
      partition: Int,
      hadoopConf: Configuration,
      guest: Option[JoinState.Guest] = None
  )(
      makeTask: (JoinState, Option[LateRowsWriter]) => StateTask
  ): Iterator[InternalRow] = {
    val begun = System.nanoTime()
    val store = openStore(partition, hadoopConf)
    val state = new JoinState(
      store,
      spec.layouts,
      spec.bucketWidths,
      spec.indexMemory,
      IndexCache.take[JoinIndex](storeId(partition)),
      guest,
      ExecutorMemory.limit(spec.executorIndexMemory)
    )
    TaskContext.get().addTaskCompletionListener[Unit] { task =>
      if (task.isFailed() || task.isInterrupted()) state.close()
      else state.leaveOff().foreach(IndexCache.put(storeId(partition), _))
    }
    longMetric(StateMetric.LoadTimeMs) += millisSince(begun)

    val lateRows = spec.lateRows.map(new LateRowsWriter(_, partition, hadoopConf))
    TaskContext.get().addTaskCompletionListener[Unit](_ => lateRows.foreach(_.abort()))

    val updating = System.nanoTime()
    val task = makeTask(state, lateRows)
    val numOutputRows = longMetric("numOutputRows")
    val output = task.output.map { row =>
      numOutputRows += 1
      row
    }
    CompletionIterator[InternalRow, Iterator[InternalRow]](
      output, {
        task.finish()
        longMetric("allUpdatesTimeMs") += millisSince(updating)
        // Before the state: a committed state has its late rows.
        lateRows.foreach(_.commit())
        commit(store, partition, state)
      }
    )
  }

  private def commit(store: StateStore, partition: Int, state: JoinState): Unit = {
    longMetric("commitTimeMs") += timeTakenMs(state.commit())
    countRows(state)
    val size = state.size
    longMetric(StateMetric.IndexBytes) += size.index
    longMetric(StateMetric.SegmentBytes) += size.stored
    longMetric(StateMetric.Segments) += size.segments
    longMetric(StateMetric.SegmentsOnDisk) += size.unloaded
    reportStore(store, size.index)
    // Last: from here on, another task may own the index.
    IndexCache.put(storeId(partition), state.handOver())
  }
}

/** Metrics of a [[JoinState]] in the query progress. */
private[operators] object StateMetric {
  val LoadTimeMs = "loadTimeMs"
  val IndexBytes = "indexBytes"
  val SegmentBytes = "segmentBytes"
  val Segments = "segments"
  val SegmentsOnDisk = "segmentsOnDisk"

  val all: Seq[(String, String)] = Seq(
    LoadTimeMs -> "time to open the state store and, where needed, read the index from it",
    IndexBytes -> "bytes of the index in memory",
    SegmentBytes -> "bytes of the segments in the state store",
    Segments -> "segments in state",
    SegmentsOnDisk -> "segments that the budget of memory leaves to the state store"
  )
}
