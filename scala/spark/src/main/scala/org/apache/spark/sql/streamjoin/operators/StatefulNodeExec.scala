package org.apache.spark.sql.streamjoin.operators

import java.util.UUID

import org.apache.hadoop.conf.Configuration

import org.apache.spark.TaskContext
import org.apache.spark.sql.catalyst.util.DateTimeUtils.microsToMillis
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.streaming.operators.stateful._
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streaming.StateOperatorProgress
import org.apache.spark.sql.streamjoin.watermark.{ColumnWatermark, WatermarkValues}
import org.apache.spark.sql.types.StructType

import streamjoin.core.Watermark

/**
 * What all our stateful operators share: the binding to a batch, the watermarks that they receive
 * and emit, one state store per partition, and their progress.
 *
 * Watermark keys number the event-time columns of the inputs, from the first input to the last.
 */
private[streamjoin] trait StatefulNodeExec extends SparkPlan with StateStoreWriter {

  /** Position among our operators in the query, from the inputs up. It identifies the state. */
  def ordinal: Int

  /** The batch, or none if the plan is only explained. */
  def binding: Option[BatchBinding]

  /** Watermarks received, by watermark key. */
  def watermarks: IndexedSeq[ColumnWatermark]

  /** Spark's stateful operators above receive the smallest of these. */
  protected def outputWatermarksForSpark: Seq[ColumnWatermark]

  /**
   * By watermark key, in microseconds: a batch with these watermarks evicts rows with a lower time.
   */
  protected def evictionLimits(values: WatermarkValues): IndexedSeq[Long]

  /**
   * The number of partitions that the operator starts with.
   *
   * @param stores
   *   the number for Spark's own operators
   */
  protected def firstPartitions(stores: Int): Int

  /** Schemas of the keys and the values in the state store. */
  protected def storeSchema: (StructType, StructType)

  /** Whether tasks also read the stores of other partitions. */
  protected def readsOtherStores: Boolean

  /** Metrics for the progress, in milliseconds, in addition to those of the tasks. */
  protected def progressFigures: Seq[(String, Long)]

  // Partitions and watermarks.

  override val stateInfo: Option[StatefulOperatorStateInfo] =
    binding.map(batch => batch.stateInfo(ordinal, batch.partitions(ordinal, firstPartitions)))

  final def numPartitions: Int =
    stateInfo.map(_.numPartitions).getOrElse(firstPartitions(conf.numShufflePartitions))

  /**
   * By watermark key, in microseconds: a row with a lower time is late. Each input is judged by its
   * own watermark, even after it was idle.
   */
  final protected lazy val late: IndexedSeq[Long] = received(_.lateValues)

  /**
   * By watermark key, in microseconds: the watermarks by which this batch evicts, after its rows.
   */
  final protected lazy val eviction: IndexedSeq[Long] = received(_.evictionValues)

  private def received(of: BatchBinding => WatermarkValues): IndexedSeq[Long] =
    binding.fold(watermarks.map(_ => Watermark.Undefined)) { batch =>
      val values = of(batch)
      watermarks.map(_.value(values))
    }

  /** Spark passes its own watermark, which is coarser than what the operator knows. */
  override def produceOutputWatermark(sparkWatermarkMs: Long): Option[Long] =
    binding.map { batch =>
      val values = batch.takeForOutputWatermark(ordinal, sparkWatermarkMs)
      math.max(microsToMillis(outputWatermarksForSpark.map(_.value(values)).min), 0L)
    }

  /**
   * Only if the watermarks have advanced far enough to evict a row, or an input that holds others
   * back has become idle.
   */
  override def shouldRunAnotherBatch(sparkWatermarkMs: Long): Boolean = binding.exists { batch =>
    val values = batch.next.values(sparkWatermarkMs)
    val limits = evictionLimits(values)
    lowestTimes.value.exists { case (key, lowest) => lowest < limits(key) } || batch.hasNewlyIdle
  }

  /**
   * For an operator that emits in time order, after a batch: the earliest time, in microseconds,
   * that a row may still arrive with. Defined only if the rows kept by operators below tell more
   * than the watermarks do.
   *
   * @param next
   *   watermarks of the next batch
   * @param late
   *   watermarks against which rows of the next batch are late
   */
  def earliestToCome(next: => WatermarkValues, late: => WatermarkValues): Option[Long] = None

  /**
   * For an operator that emits in time order, after a batch: the lowest time in its state, in
   * microseconds, as long as it has emitted nothing.
   */
  def waitingFrom: Option[Long] = None

  /** The lowest time in state for a watermark key after the batch, if any row is kept. */
  final def lowestKept(key: Int): Option[Long] = lowestTimes.value.get(key)

  /** The lowest time in state by watermark key, over all tasks. */
  final protected val lowestTimes: LowestTimes = {
    val accumulator = new LowestTimes
    sparkContext.register(accumulator)
    accumulator
  }

  // State stores.

  override def validateAndMaybeEvolveStateSchema(
      hadoopConf: Configuration,
      batchId: Long,
      stateSchemaVersion: Int
  ): List[StateSchemaValidationResult] = {
    val (keys, values) = storeSchema
    val schema = StateStoreColFamilySchema(StateStore.DEFAULT_COL_FAMILY_NAME, 0, keys, 0, values)
    List(
      StateSchemaCompatibilityChecker.validateAndMaybeEvolveStateSchema(
        getStateInfo,
        hadoopConf,
        List(schema),
        session.sessionState,
        stateSchemaVersion
      )
    )
  }

  private lazy val storeConf = new StateStoreConf(storeSettings)

  /** For a store that is only read: its reports would stay on the driver forever. */
  private lazy val quietStoreConf = Option.when(readsOtherStores) {
    val quiet = storeSettings
    quiet.setConf(SQLConf.STATE_STORE_COORDINATOR_REPORT_SNAPSHOT_UPLOAD_LAG, false)
    new StateStoreConf(quiet)
  }

  /**
   * RocksDB uploads a snapshot with every commit unless changelogs are enabled. They are enabled
   * here, unless the user says otherwise.
   */
  private def storeSettings: SQLConf = {
    val settings = conf.clone()
    // RocksDBConf ignores the case of the name, too.
    if (!settings.getAllConfs.keys.exists(_.equalsIgnoreCase(StatefulNodeExec.Changelogs)))
      settings.setConfString(StatefulNodeExec.Changelogs, "true")
    settings
  }

  /** Evaluates what tasks need and only the driver can create. */
  final protected def makeOnDriver(): Unit = {
    metrics: Unit
    storeConf: Unit
    quietStoreConf: Unit
  }

  final protected def storeId(partition: Int): StateStoreProviderId =
    StateStoreProviderId(getStateInfo, partition, StateStoreId.DEFAULT_STORE_NAME)

  /**
   * The store of a task's partition, at the version that the batch starts from. Changes that are
   * not committed are discarded.
   */
  final protected def openStore(partition: Int, hadoopConf: Configuration): StateStore = {
    val (info, (keys, values)) = (getStateInfo, storeSchema)
    val store = StateStore.get(
      storeId(partition),
      keys,
      values,
      NoPrefixKeyStateEncoderSpec(keys),
      info.storeVersion,
      info.getStateStoreCkptId(partition).map(_.head),
      None,
      useColumnFamilies = false,
      storeConf,
      hadoopConf
    )
    // A task that ends before its output is consumed has not committed.
    TaskContext.get().addTaskCompletionListener[Unit](_ => if (!store.hasCommitted) store.abort())
    store
  }

  /** Reads the store of another partition, at the version that the batch starts from. */
  final protected def readStore(partition: Int, hadoopConf: Configuration)(
      read: ReadStateStore => Unit
  ): Unit = {
    val (info, (keys, values)) = (getStateInfo, storeSchema)
    val provider = StateStoreProvider.createAndInit(
      // A fresh run id gives a separate provider: the partition's own task may run in this process,
      // and a store serves one task at a time.
      storeId(partition).copy(queryRunId = UUID.randomUUID()),
      keys,
      values,
      NoPrefixKeyStateEncoderSpec(keys),
      useColumnFamilies = false,
      quietStoreConf.get,
      new Configuration(hadoopConf),
      useMultipleValuesPerKey = false,
      None
    )
    try {
      val store = provider.getReadStore(info.storeVersion, info.getStateStoreCkptId(partition).map(_.head))
      try read(store)
      finally store.release()
    } finally provider.close()
  }

  /**
   * Reports a committed store.
   *
   * @param indexBytes
   *   memory of the task's index, in addition to that of the store
   */
  final protected def reportStore(store: StateStore, indexBytes: Long): Unit = {
    val storeMetrics = store.metrics
    longMetric("stateMemory") += storeMetrics.memoryUsedBytes + indexBytes
    setStoreCustomMetrics(storeMetrics.customMetrics)
    setStoreInstanceMetrics(storeMetrics.instanceMetrics)
    setOperatorMetrics()
    if (StatefulOperatorStateInfo.enableStateStoreCheckpointIds(conf)) {
      val info = store.getStateStoreCheckpointInfo()
      setStateStoreCheckpointInfo(
        StatefulOpStateStoreCheckpointInfo(
          info.partitionId,
          info.batchVersion,
          info.stateStoreCkptId.map(Array(_)),
          info.baseStateStoreCkptId.map(Array(_))
        )
      )
    }
  }

  final protected def millisSince(begun: Long): Long = (System.nanoTime() - begun) / 1000000

  // Progress.

  override def getProgress(): StateOperatorProgress = {
    // Spark asks for the progress once a batch is over (`ProgressReporter.finishTrigger`).
    binding.foreach(_.endBatch())
    val progress = super.getProgress()
    progress.customMetrics.put(StatefulNodeExec.Number, ordinal + 1L)
    for ((name, figure) <- progressFigures) progress.customMetrics.put(name, figure)
    progress
  }
}

private[streamjoin] object StatefulNodeExec {

  /** In the progress: number of the operator in the query, from 1. */
  val Number = "join"

  private val Changelogs = s"${RocksDBConf.ROCKSDB_SQL_CONF_NAME_PREFIX}.changelogCheckpointing.enabled"
}
