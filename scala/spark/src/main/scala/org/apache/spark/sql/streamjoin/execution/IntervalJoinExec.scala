package org.apache.spark.sql.streamjoin.execution

import java.util.UUID

import org.apache.hadoop.conf.Configuration

import org.apache.spark.TaskContext
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Left => _, Right => _, _}
import org.apache.spark.sql.catalyst.plans.physical._
import org.apache.spark.sql.catalyst.util.DateTimeUtils.microsToMillis
import org.apache.spark.sql.execution.streaming.operators.stateful._
import org.apache.spark.sql.execution.streaming.operators.stateful.join.StreamingSymmetricHashJoinHelper._
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.execution.{BinaryExecNode, SparkPlan}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streaming.StateOperatorProgress
import org.apache.spark.sql.streamjoin.StreamJoinConf
import org.apache.spark.sql.streamjoin.analysis.JoinNames
import org.apache.spark.sql.streamjoin.plans.{JoinPlan, Routing}
import org.apache.spark.sql.streamjoin.state.{ExecutorMemory, IndexCache, JoinState, SegmentStore}
import org.apache.spark.sql.streamjoin.watermark.WatermarkValues
import org.apache.spark.sql.types.{MapType, VariantType}
import org.apache.spark.util.CompletionIterator

import streamjoin.core.{JoinType, Left, Side, Watermark}

/**
 * The interval join of two streams, with state bounded by the watermarks of its event-time columns.
 *
 * {{{
 *   orders -- hash(order_id) --+                        +-- orders kept 1 hour --+
 *                              +-- task: probe, emit ---+                        +-- state store
 *   deliveries - hash(order_id)+                        +-- deliveries kept 0 s -+   (one per task)
 * }}}
 *
 * State gets bounded by the time bounds in the condition. With `d.time BETWEEN o.time AND o.time + 1 hour`, a delivery
 * of 12:00 can only belong to an order of 11:00 or later. Once the watermark of `d.time` has reached 12:00, no delivery
 * before 12:00 is still to come, so orders before 11:00 can leave; the other way round, once that of `o.time` has reached
 * 12:00, deliveries before 12:00 can leave. The two watermarks are each column's own: a stalled stream holds back the
 * state of its partner, and nothing else in the query.
 *
 * @param join
 *   what to do, in numbers
 * @param binding
 *   the batch, or none where the plan is only explained
 */
final private[streamjoin] case class IntervalJoinExec(
    leftKeys: Seq[Expression],
    rightKeys: Seq[Expression],
    condition: Option[Expression],
    times: Seq[Attribute],
    join: JoinPlan,
    @transient binding: Option[BatchBinding],
    left: SparkPlan,
    right: SparkPlan
) extends BinaryExecNode
    with StateStoreWriter {
  import IntervalJoinExec._

  override val stateInfo: Option[StatefulOperatorStateInfo] = binding.map(_.stateInfo(join))

  override def shortName: String = OperatorName

  override def output: Seq[Attribute] = join.output(left.output, right.output)

  private def partitions: Int = stateInfo.map(_.numPartitions).getOrElse(conf.numShufflePartitions)

  override def requiredChildDistribution: Seq[Distribution] = join.routing match {
    case Routing.ByKey => Seq(leftKeys, rightKeys).map(StatefulOpClusteredDistribution(_, partitions))
    case Routing.OneTask => Seq(AllTuples, AllTuples)
    case Routing.Spread(broadcast) =>
      Side.both.map { side =>
        // The strategy has sent it to all tasks.
        if (side == broadcast) UnspecifiedDistribution
        else StatefulOpClusteredDistribution(spreadBy(plan(side).output), partitions)
      }
  }

  private def plan(side: Side): SparkPlan = if (side == Left) left else right

  /** The whole row, as far as it has a hash: a row goes to the same task in every attempt. */
  private def spreadBy(columns: Seq[Attribute]): Seq[Attribute] =
    columns.filterNot(_.dataType.existsRecursively {
      case _: MapType | VariantType => true
      case _ => false
    })

  /** A padded row lies where its key was, which the keys of the other side do not say. */
  override def outputPartitioning: Partitioning = (join.routing, join.joinType) match {
    case (Routing.Spread(broadcast), _) => plan(broadcast.other).outputPartitioning
    case (_, JoinType.Inner) =>
      PartitioningCollection(Seq(left.outputPartitioning, right.outputPartitioning))
    case (_, JoinType.LeftOuter | JoinType.LeftSemi | JoinType.LeftAnti) => left.outputPartitioning
    case (_, JoinType.RightOuter) => right.outputPartitioning
    case (_, JoinType.FullOuter) => UnknownPartitioning(left.outputPartitioning.numPartitions)
  }

  override protected def withNewChildrenInternal(newLeft: SparkPlan, newRight: SparkPlan): IntervalJoinExec =
    copy(left = newLeft, right = newRight)

  // Watermarks.

  /** By watermark key, in microseconds. */
  private lazy val late: IndexedSeq[Long] = received(binding.map(_.lateValues))
  private lazy val eviction: IndexedSeq[Long] = received(binding.map(_.evictionValues))

  private def received(values: Option[WatermarkValues]): IndexedSeq[Long] =
    join.watermarks.map(column => values.fold(Watermark.Undefined)(column.value))

  private def limits(watermarks: IndexedSeq[Long]): IndexedSeq[Long] =
    join.watermarks.indices.map(key => join.bounds.state(key, watermarks(_)))

  /**
   * What Spark's stateful operators above are told: the smallest output watermark of the columns that they wait for. Spark
   * asks in terms of its own watermark, which says less than what the join knows.
   */
  override def produceOutputWatermark(sparkWatermarkMs: Long): Option[Long] =
    binding.map { batch =>
      val values = batch.asked(join.ordinal, sparkWatermarkMs)
      math.max(microsToMillis(join.answers.map(_.value(values)).min), 0L)
    }

  /** When, and only when, the watermarks have moved far enough for a row that is kept to leave. */
  override def shouldRunAnotherBatch(sparkWatermarkMs: Long): Boolean = binding.exists { batch =>
    val next = limits(received(Some(batch.next.values(sparkWatermarkMs))))
    lowestTimes.value.exists { case (key, lowest) => lowest < next(key) }
  }

  /** The lowest time that is kept, by watermark key, over all tasks. */
  private val lowestTimes: LowestTimes = {
    val accumulator = new LowestTimes
    sparkContext.register(accumulator)
    accumulator
  }

  // State.

  override def validateAndMaybeEvolveStateSchema(
      hadoopConf: Configuration,
      batchId: Long,
      stateSchemaVersion: Int
  ): List[StateSchemaValidationResult] = {
    val schema = StateStoreColFamilySchema(
      StateStore.DEFAULT_COL_FAMILY_NAME,
      0,
      SegmentStore.KeySchema,
      0,
      SegmentStore.ValueSchema
    )
    List(
      StateSchemaCompatibilityChecker
        .validateAndMaybeEvolveStateSchema(
          getStateInfo,
          hadoopConf,
          List(schema),
          session.sessionState,
          stateSchemaVersion
        )
    )
  }

  private lazy val storeConf = new StateStoreConf(storeSettings)

  /** Of a store that is only read: what it reports to the driver would stay there for ever. */
  private lazy val quietStoreConf = join.broadcast.map { _ =>
    val quiet = storeSettings
    quiet.setConf(SQLConf.STATE_STORE_COORDINATOR_REPORT_SNAPSHOT_UPLOAD_LAG, false)
    new StateStoreConf(quiet)
  }

  /**
   * RocksDB uploads a snapshot with every commit, unless it may write changelogs: so it may, unless
   * the user says otherwise.
   */
  private def storeSettings: SQLConf = {
    val settings = conf.clone()
    // RocksDBConf, too, takes it in any case.
    if (!settings.getAllConfs.keys.exists(_.equalsIgnoreCase(Changelogs)))
      settings.setConfString(Changelogs, "true")
    settings
  }

  // Execution.

  override protected def customStatefulOperatorMetrics: Seq[StatefulOperatorCustomMetric] =
    Metric.all.map { case (name, text) => StatefulOperatorCustomSumMetric(name, text) }

  override protected def doExecute(): RDD[InternalRow] = {
    // Made on the driver.
    metrics
    storeConf
    quietStoreConf
    val spec = TaskSpec.of(this, late, limits(eviction))
    val hadoopConf = binding.get.hadoopConf
    left
      .execute()
      .stateStoreAwareZipPartitions(
        right.execute(),
        getStateInfo,
        stateStoreNames,
        session.sessionState.streamingQueryManager.stateStoreCoordinator
      )((partition, leftRows, rightRows) =>
        runTask(spec, hadoopConf.value.value, partition, leftRows, rightRows)
      )
  }

  private def runTask(
      spec: TaskSpec,
      hadoopConf: Configuration,
      partition: Int,
      leftRows: Iterator[InternalRow],
      rightRows: Iterator[InternalRow]
  ): Iterator[InternalRow] = {
    val info = getStateInfo
    val storeId = StateStoreProviderId(info, partition, StateStoreId.DEFAULT_STORE_NAME)
    val begun = System.nanoTime()
    val store = StateStore.get(
      storeId,
      SegmentStore.KeySchema,
      SegmentStore.ValueSchema,
      NoPrefixKeyStateEncoderSpec(SegmentStore.KeySchema),
      info.storeVersion,
      info.getStateStoreCkptId(partition).map(_.head),
      None,
      useColumnFamilies = false,
      storeConf,
      hadoopConf
    )
    // A task that ends before its output is used up has not committed.
    TaskContext.get().addTaskCompletionListener[Unit](_ => if (!store.hasCommitted) store.abort())

    val state = new JoinState(
      store,
      Side.both.map(spec.sides(_).layout),
      Side.both.map(spec.sides(_).bucketWidth),
      spec.indexMemory,
      IndexCache.take(storeId),
      spec.guest(partition).map(JoinState.Guest(_, spec.broadcastMemory, openBroadcast(hadoopConf))),
      ExecutorMemory.limit(spec.executorIndexMemory)
    )
    TaskContext.get().addTaskCompletionListener[Unit](_ => state.close())
    longMetric(Metric.LoadTimeMs) += millisSince(begun)

    val lateRows = spec.lateRows.map(new LateRowsWriter(_, partition, hadoopConf))
    TaskContext.get().addTaskCompletionListener[Unit](_ => lateRows.foreach(_.abort()))

    val updating = System.nanoTime()
    val task = new JoinTask(spec, partition, state, taskMetrics, lateRows)
    val numOutputRows = longMetric("numOutputRows")
    val output = task.run(leftRows, rightRows).map { row =>
      numOutputRows += 1
      row
    }
    CompletionIterator[InternalRow, Iterator[InternalRow]](
      output, {
        task.finish()
        longMetric("allUpdatesTimeMs") += millisSince(updating)
        // Before the state: what is committed has its late rows.
        lateRows.foreach(_.commit())
        commit(store, storeId, state)
      }
    )
  }

  /** The store of the task that keeps the broadcast side, at the version that this batch starts from. */
  private def openBroadcast(hadoopConf: Configuration)(read: ReadStateStore => Unit): Unit = {
    val info = getStateInfo
    val storeId = StateStoreProviderId(info, TaskSpec.BroadcastKeeper, StateStoreId.DEFAULT_STORE_NAME)
    val provider = StateStoreProvider.createAndInit(
      // Not the one that the keeper is at work with, if that runs here: a store serves one task at a time.
      storeId.copy(queryRunId = UUID.randomUUID()),
      SegmentStore.KeySchema,
      SegmentStore.ValueSchema,
      NoPrefixKeyStateEncoderSpec(SegmentStore.KeySchema),
      useColumnFamilies = false,
      quietStoreConf.get,
      new Configuration(hadoopConf),
      useMultipleValuesPerKey = false,
      None
    )
    try {
      val checkpoint = info.getStateStoreCkptId(TaskSpec.BroadcastKeeper).map(_.head)
      val store = provider.getReadStore(info.storeVersion, checkpoint)
      try read(store)
      finally store.release()
    } finally provider.close()
  }

  private def commit(
      store: StateStore,
      storeId: StateStoreProviderId,
      state: JoinState
  ): Unit = {
    longMetric("commitTimeMs") += timeTakenMs(state.commit())
    Side.both.foreach { side =>
      if (!state.isGuest(side)) {
        longMetric("numTotalStateRows") += state.rows(side)
        longMetric(Metric.rowsInState(side)) += state.rows(side)
      }
      join.bounds.bounded(side).zipWithIndex.foreach { case (key, at) =>
        state.lowest(side, at).foreach(lowest => lowestTimes.add(key -> lowest))
      }
    }
    val size = state.size
    longMetric(Metric.IndexBytes) += size.index
    longMetric(Metric.PayloadBytes) += size.payload
    longMetric(Metric.SegmentBytes) += size.stored
    longMetric(Metric.Segments) += size.segments
    longMetric(Metric.SegmentsOnDisk) += size.unloaded
    val storeMetrics = store.metrics
    longMetric("stateMemory") += storeMetrics.memoryUsedBytes + size.index
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
    // Last of all: from here on the index may be another task's.
    IndexCache.put(storeId, state.handOver())
  }

  private def taskMetrics: TaskMetrics = TaskMetrics(
    joined = longMetric(Metric.JoinedRows),
    padded = longMetric(Metric.PaddedRows),
    late = longMetric("numRowsDroppedByWatermark"),
    lateBySide = Side.both.map(side => side -> longMetric(Metric.lateRows(side))).toMap,
    evicted = longMetric(Metric.EvictedRows),
    removed = longMetric("numRemovedStateRows"),
    kept = longMetric("numUpdatedStateRows"),
    timeMs = Side.both.map(side => side -> longMetric(Metric.timeMs(side))).toMap,
    evictTimeMs = longMetric(Metric.EvictTimeMs),
    removalsTimeMs = longMetric("allRemovalsTimeMs")
  )

  private def millisSince(begun: Long): Long = (System.nanoTime() - begun) / 1000000

  // The story: EXPLAIN and progress.

  /**
   * With the number of the join, from the inputs up; for each event-time column its watermark, once there is one, and how
   * far that is behind the newest row of the column; and how far the column that is last is behind the first.
   */
  override def getProgress(): StateOperatorProgress = {
    // Spark asks when a batch is over, and writes the logs of its sources before it needs to know more.
    binding.foreach(_.prepareNext())
    val progress = super.getProgress()
    progress.customMetrics.put(Metric.Join, join.ordinal + 1L)
    for ((name, millis) <- words.figures(origin => binding.flatMap(_.newest.get(origin))))
      progress.customMetrics.put(name, millis)
    progress
  }

  override def nodeName: String = "StreamJoin"

  override def simpleString(maxFields: Int): String = s"$nodeName ${description.mkString(", ")}"

  override def verboseStringWithOperatorId(): String =
    s"$formattedNodeName\n${description.map(line => s"  $line").mkString("\n")}\n"

  /** What is needed to keep late rows, where they are asked for. */
  private[execution] def lateRows: Option[LateRows.Spec] =
    binding.filter(_ => StreamJoinConf.keepsLateRows).map { batch =>
      val inputs = Side.both.map { side =>
        side -> LateRows.Input(names.name(side), join.keys(side).map(times), plan(side).output)
      }
      LateRows.Spec(batch.lateRows.toString, batch.batch, join.ordinal + 1, inputs.toMap)
    }

  @transient private lazy val names: JoinNames = binding match {
    case Some(batch) => JoinNames.of(join, times, left.output, right.output, batch.inputs)
    case None => JoinNames.qualified(left.output, right.output, leftKeys ++ rightKeys ++ condition)
  }

  @transient private lazy val words = new JoinWords(join, times, names, eviction)

  private def description: Seq[String] = words.description(leftKeys, rightKeys, condition, partitions)
}

private[streamjoin] object IntervalJoinExec {
  val OperatorName = "streamIntervalJoin"

  private val Changelogs = s"${RocksDBConf.ROCKSDB_SQL_CONF_NAME_PREFIX}.changelogCheckpointing.enabled"
}
