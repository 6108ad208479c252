package org.apache.spark.sql.streamjoin.operator

import scala.annotation.unused

import org.apache.hadoop.conf.Configuration

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.util.DateTimeConstants.MICROS_PER_MILLIS
import org.apache.spark.sql.catalyst.util.DateTimeUtils.microsToMillis
import org.apache.spark.sql.execution.streaming.operators.stateful._
import org.apache.spark.sql.execution.streaming.operators.stateful.join.StreamingSymmetricHashJoinHelper._
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streaming.StateOperatorProgress
import org.apache.spark.sql.streamjoin.analysis.OperatorSpec
import org.apache.spark.sql.streamjoin.base.{Figures, StreamJoinConf}
import org.apache.spark.sql.streamjoin.batch.{BatchBinding, BoundOperator}
import org.apache.spark.sql.streamjoin.checkpoint.{Generation, OperatorOutline}
import org.apache.spark.sql.streamjoin.observe.collect.TaskReports
import org.apache.spark.sql.streamjoin.plans.FirstPartitions
import org.apache.spark.sql.streamjoin.state.SegmentStore
import org.apache.spark.sql.streamjoin.watermark.{
  ColumnWatermark,
  Passed,
  ReceivedWatermarks,
  WatermarkId,
  WatermarkValues
}

import streamjoin.core.Watermark

/**
 * The common base of all our stateful operators: the binding to a batch, the watermarks that they
 * receive and emit, one state store per partition, and their progress.
 *
 * Watermark keys number the event-time columns of the inputs, from the first input to the last.
 *
 * Its tasks receive a [[StatefulTasks]] and a spec, never the operator with the plan below.
 */
private[streamjoin] trait StatefulNodeExec extends BoundOperator with StateStoreWriter {

  protected def definition: OperatorSpec

  /** Spark's stateful operators above receive the smallest of these. */
  final private def outputWatermarksForSpark: Seq[ColumnWatermark] = definition.outputWatermarksForSpark

  final override def received: ReceivedWatermarks =
    ReceivedWatermarks(ordinal, watermarks, definition.compared)

  final override def holdsAbove(values: WatermarkValues): Option[WatermarkId] =
    outputWatermarksForSpark.minByOption(_.value(values)).flatMap(_.decidedBy(values))

  /** The number of keys by which rows may expire. */
  protected def expiryKeys: Int = watermarks.size

  /** By such a key, in microseconds: with these, a batch evicts rows with a lower time. */
  protected def evictionLimits(values: WatermarkValues): IndexedSeq[Long]

  /**
   * The number of partitions of the operator.
   *
   * @param set
   *   the number that is set
   * @param atOnce
   *   how many tasks can run at once
   */
  protected def partitions(set: Int, atOnce: Int): Int =
    definition.tasks.fold(set)(_.number(set, atOnce))

  /**
   * The number of partitions, given the one that is set and the one that the state has. A cluster
   * that has become smaller is no reason to rewrite the state.
   *
   * @param partitions
   *   as above
   */
  final protected def number(partitions: (Int, Int) => Int): (Int, Int) => Int =
    (set, now) => partitions(set, math.max(tasksAtOnce, now))

  /** How many tasks can run at once. */
  private def tasksAtOnce: Int = FirstPartitions.atOnce(sparkContext)

  /** Metrics for the progress, in milliseconds, in addition to those of the tasks. */
  protected def progressFigures: Seq[(String, Long)]

  protected def kind: OperatorKind

  /** The sides whose rows it keeps; empty if it keeps the rows of its only input. */
  protected def keptSides: Seq[Option[String]] = Seq(None)

  /** The late-row writer for the tasks of the batch. */
  protected def taskSpec: StateSpec

  /** Lines for EXPLAIN. */
  protected def words: Seq[String]

  final override lazy val outline: OperatorOutline = makeOutline

  protected def makeOutline: OperatorOutline

  // Partitions and watermarks.

  override val stateInfo: Option[StatefulOperatorStateInfo] = binding.map { batch =>
    batch.states.stateInfo(ordinal, batch.states.state(ordinal, number(partitions)))
  }

  final def numPartitions: Int =
    stateInfo.map(_.numPartitions).getOrElse(partitions(StreamJoinConf.partitions(), tasksAtOnce))

  /**
   * By watermark key, in microseconds: a row with a lower time is late. Each input is judged by its
   * own watermark, even after it has been idle.
   */
  final protected lazy val late: IndexedSeq[Long] = watermarksIn(_.lateValues)

  /**
   * By watermark key, in microseconds: the watermarks by which this batch evicts, after its rows.
   */
  final protected lazy val eviction: IndexedSeq[Long] = watermarksIn(_.evictionValues)

  /**
   * For tasks that observe their rows: for each input, the newest time of its first event-time
   * column, from which the watermark for late rows is computed.
   *
   * @param columns
   *   the watermark key of each input's first event-time column
   */
  final protected[streamjoin] def observed(columns: Seq[Option[Int]]): Option[Seq[Option[Long]]] =
    binding.filter(_ => StreamJoinConf.observesRows).map { batch =>
      columns.map(_.flatMap(key => watermarks(key).newest(batch.newestJudging.get)))
    }

  final override def passed(values: WatermarkValues, newest: Map[WatermarkId, Long]): Passed = Passed(
    definition.outputWatermarks.map(_.value(values)),
    outputWatermarksForSpark.map(_.value(values)).min,
    evictionLimits(values),
    watermarks.map(_.highest(newest.get).getOrElse(Watermark.Undefined)),
    Some(definition.known)
  )

  private def watermarksIn(of: BatchBinding => WatermarkValues): IndexedSeq[Long] =
    binding.fold(watermarks.map(_ => Watermark.Undefined)) { batch =>
      val values = of(batch)
      watermarks.map(_.value(values))
    }

  /** Spark passes the lowest watermark of the inputs, which is coarser than those of columns. */
  override def produceOutputWatermark(inputWatermarkMs: Long): Option[Long] =
    binding.map { batch =>
      val values = batch.takeForOutputWatermark(ordinal)
      val own = outputWatermarksForSpark.map(_.value(values)).min
      math.max(microsToMillis(math.max(own, batch.floor(ordinal))), 0L)
    }

  /**
   * Runs another batch only if the watermarks have advanced far enough to evict a row, or an input
   * that holds others back has become idle.
   */
  override def shouldRunAnotherBatch(inputWatermarkMs: Long): Boolean = binding.exists { batch =>
    val limits = evictionLimits(batch.nextValues)
    reports.lowest.exists { case (key, lowest) => lowest < limits(key) } || batch.hasNewlyIdle
  }

  final override val reports: TaskReports = {
    val accumulator = new TaskReports
    sparkContext.register(accumulator)
    accumulator
  }

  /** Whether all tasks have reported what they keep. If the sink skips a batch, none does. */
  final protected[streamjoin] def hasReported: Boolean = reports.value.size >= numPartitions

  /** The metrics of its single state stores. */
  @transient private lazy val ofStores = new InstanceMetrics(this)

  // State stores.

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
      StateSchemaCompatibilityChecker.validateAndMaybeEvolveStateSchema(
        getStateInfo,
        hadoopConf,
        List(schema),
        session.sessionState,
        stateSchemaVersion
      )
    )
  }

  private def stores(generation: Generation) = new StateStores(
    binding.get.states.stateInfo(ordinal, generation),
    generation.firstBatch,
    super.conf,
    generation.provider
  )

  /** With the metrics of the stores that it has. */
  override def conf: SQLConf = ownConf.getOrElse(super.conf)

  @transient private lazy val ownConf: Option[SQLConf] = for {
    batch <- binding
    name <- batch.states.state(ordinal).provider
  } yield {
    val changed = super.conf.clone()
    changed.setConf(SQLConf.STATE_STORE_PROVIDER_CLASS, name)
    changed
  }

  /**
   * The state of another operator whose place this one takes in this batch.
   *
   * @param settings
   *   those by which the state was written
   */
  protected def otherState(@unused settings: SQLConf): Option[StateToRewrite] = None

  /** Another action of the batch finds it done. */
  private def rewriteState(): Unit = binding.get.states.rewriting(ordinal).foreach { case (before, next) =>
    val spec = taskSpec
    val from = otherState(super.conf)
      .orElse(Option.when(before.isEmpty)(NoState))
      .orElse(binding.get.rewritten(ordinal).map { change =>
        new ChangedState(spec, stores(before), change.was, change.is, keptSides, change.places)
      })
      .getOrElse(new StoredState(spec, stores(before)))
    val rewrite = new StateRewrite(spec, from, stores(next).empty, binding.get.hadoopConf)
    binding.get.states.begin(ordinal, next.copy(storeIds = rewrite.run(sparkContext)))
  }

  /** What goes to the tasks in place of the operator. */
  private def tasksOfBatch: StatefulTasks = new StatefulTasks(
    taskSpec,
    binding.get.hadoopConf,
    stores(binding.get.states.state(ordinal)),
    metrics,
    ofStores,
    Option.when(StatefulOperatorStateInfo.enableStateStoreCheckpointIds(conf))(checkpointInfoAccumulator),
    reports,
    expiryKeys
  )

  // Tasks.

  final override protected def customStatefulOperatorMetrics: Seq[StatefulOperatorCustomMetric] =
    Figures.ofTasks(kind.name).map { case (name, text) => StatefulOperatorCustomSumMetric(name, text) }

  final override protected def doExecute(): RDD[InternalRow] = {
    binding.foreach(_.beginTasks(ordinal))
    rewriteState()
    val tasks = tasksOfBatch
    val coordinator = session.sessionState.streamingQueryManager.stateStoreCoordinator
    val rows = children.map(_.execute())
    if (rows.size == 1) new PlacedRDD(rows.head, getStateInfo, coordinator, tasks)
    else
      rows.head.stateStoreAwareZipPartitions(rows(1), getStateInfo, stateStoreNames, coordinator)(
        tasks.ofTwo
      )
  }

  // EXPLAIN and progress.

  final override def nodeName: String = kind.nodeName

  final override def shortName: String = kind.progressName

  final override def simpleString(maxFields: Int): String = s"$nodeName ${words.mkString(", ")}"

  final override def verboseStringWithOperatorId(): String =
    (words ++ binding.toSeq.flatMap(_.changesInWords(ordinal)))
      .map(line => s"  $line")
      .mkString(s"$formattedNodeName\n", "\n", "\n")

  override def getProgress(): StateOperatorProgress = {
    // Spark asks for the progress once a batch is over (`ProgressReporter.finishTrigger`).
    binding.foreach(_.endBatch())
    ofStores.set()
    val progress = super.getProgress()
    progress.customMetrics.put("join", ordinal + 1L)
    progress.customMetrics.put("rowsOut", longMetric("numOutputRows").value)
    keptSides.zipWithIndex.foreach { case (side, at) =>
      progress.customMetrics.put(Figures.ofSide(side, "rowsIn"), reports.sum(_.in(at)))
      progress.customMetrics.put(Figures.ofSide(side, "bytesInState"), reports.sum(_.bytes(at)))
    }
    for (batch <- binding; micros <- batch.completeFrom(this))
      progress.customMetrics.put("completeFromMs", microsToMillis(micros + MICROS_PER_MILLIS - 1))
    for ((name, figure) <- progressFigures) progress.customMetrics.put(name, figure)
    progress
  }
}
