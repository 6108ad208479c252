package org.apache.spark.sql.streamjoin.operators.temporal

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.physical._
import org.apache.spark.sql.catalyst.util.DateTimeUtils.microsToMillis
import org.apache.spark.sql.execution.streaming.operators.stateful.join.StreamingSymmetricHashJoinHelper._
import org.apache.spark.sql.execution.{BinaryExecNode, SparkPlan}
import org.apache.spark.sql.streamjoin.base.StreamJoinConf
import org.apache.spark.sql.streamjoin.operators.{BatchBinding, BucketWidth, JoinStateExec, LateRows, TimeRanges}
import org.apache.spark.sql.streamjoin.state.JoinState
import org.apache.spark.sql.streamjoin.watermark.{ColumnWatermark, WatermarkValues}

import streamjoin.core.{Side, Watermark}

/**
 * The temporal join of a stream of facts with a stream of versions.
 *
 * {{{
 *   facts ---- hash(key) --+                                    +-- facts and versions that wait, by time
 *                          +-- task: what is due, key by key ---+-- the version of each key
 *   versions - hash(key) --+                                    +   (one state store per task)
 *                                |
 *                                +-- range of time -- sort --> in order (the strategy puts these two above)
 * }}}
 *
 * A fact waits until no version that it could meet is still to come: until both watermarks have
 * passed its time, and where it looks ahead that of the versions so much more. Then it meets the
 * version of its key that was valid by then, or by another rule the closest ([[VersionsOfKey]]).
 * State gets bounded by the same watermarks: a version that none of the facts to come can meet
 * leaves, but for the newest of each live key where a version is valid until the next.
 *
 * @param times
 *   the event-time column of each input
 */
final private[streamjoin] case class TemporalJoinExec(
    leftKeys: Seq[Attribute],
    rightKeys: Seq[Attribute],
    operation: Option[Attribute],
    ties: Seq[Attribute],
    condition: Option[Expression],
    times: Seq[Attribute],
    plan: TemporalPlan,
    @transient override val binding: Option[BatchBinding],
    left: SparkPlan,
    right: SparkPlan
) extends BinaryExecNode
    with JoinStateExec {

  override def shortName: String = TemporalJoinExec.OperatorName

  override def output: Seq[Attribute] = TemporalJoin.output(left.output, right.output, plan.isLeftOuter)

  override def ordinal: Int = plan.ordinal

  /** Without an equality all rows have one key. */
  override protected def firstPartitions(stores: Int): Int = if (leftKeys.isEmpty) 1 else stores

  override def requiredChildDistribution: Seq[Distribution] =
    if (leftKeys.isEmpty) Seq(AllTuples, AllTuples)
    else Seq(leftKeys, rightKeys).map(StatefulOpClusteredDistribution(_, numPartitions))

  override def outputPartitioning: Partitioning = left.outputPartitioning

  override protected def withNewChildrenInternal(newLeft: SparkPlan, newRight: SparkPlan): TemporalJoinExec =
    copy(left = newLeft, right = newRight)

  // Watermarks and state.

  override def watermarks: IndexedSeq[ColumnWatermark] = plan.watermarks

  override protected def outputWatermarksForSpark: Seq[ColumnWatermark] = plan.outputWatermarksForSpark

  /** Facts before the first come out, versions before the second are met by none that comes later. */
  override protected def evictionLimits(values: WatermarkValues): IndexedSeq[Long] = {
    val settled = plan.settled.value(values)
    IndexedSeq(settled, plan.rule.needed(settled))
  }

  override protected def readsOtherStores: Boolean = false

  private def limits(of: BatchBinding => WatermarkValues): IndexedSeq[Long] =
    binding.fold(IndexedSeq.fill(2)(Watermark.Undefined))(batch => evictionLimits(of(batch)))

  /** Facts before this time have come out in the batches before. */
  private def emitted: Long = limits(_.emittedValues).head

  /** The parts of time by which the rows of this batch are sorted. */
  def ranges: TimeRanges =
    TimeRanges(plan.rule.output(emitted), limits(_.evictionValues).head, numPartitions)

  // Execution.

  override protected def ownMetrics: Seq[(String, String)] = TemporalMetric.all

  override protected def doExecute(): RDD[InternalRow] = {
    makeOnDriver()
    val spec = taskSpec
    val hadoopConf = binding.get.hadoopConf
    left
      .execute()
      .stateStoreAwareZipPartitions(
        right.execute(),
        getStateInfo,
        stateStoreNames,
        session.sessionState.streamingQueryManager.stateStoreCoordinator
      ) { (partition, leftRows, rightRows) =>
        runTask(spec, partition, hadoopConf.value.value)(
          new TemporalTask(spec, partition, leftRows, rightRows, _, taskMetrics, _)
        )
      }
  }

  private def taskSpec: TemporalSpec = {
    val limits = evictionLimits(binding.get.evictionValues)
    def input(side: Side, rows: SparkPlan, keys: Seq[Attribute], back: Long): InputSpec = {
      // An input that was idle is judged by the watermark that it left; what is out is out.
      val judged = Watermark.postponed(math.max(late(side.index), emitted), back)
      val kept = BigInt(plan.rule.behind).min(plan.rule.history + plan.rule.tolerance.getOrElse(0L)) + plan.rule.ahead
      InputSpec(rows.output, keys, times(side.index), judged, BucketWidth.of(BucketWidth.delay(rows) + kept))
    }
    TemporalSpec(
      Seq(
        input(Side.Left, left, leftKeys, plan.rule.history),
        input(Side.Right, right, rightKeys, 0)
      ),
      operation,
      ties,
      condition,
      output,
      plan.isLeftOuter,
      plan.rule,
      limits.head,
      limits(1),
      conf.getConf(StreamJoinConf.MaxAccumulatedRecords),
      conf.getConf(StreamJoinConf.IndexMemory),
      conf.getConf(StreamJoinConf.ExecutorIndexMemory),
      lateRows
    )
  }

  private def taskMetrics: TaskMetrics = TaskMetrics(
    joined = longMetric(TemporalMetric.JoinedRows),
    padded = longMetric(TemporalMetric.PaddedRows),
    late = longMetric("numRowsDroppedByWatermark"),
    lateBySide = Side.both.map(side => side -> longMetric(TemporalMetric.lateRows(side))).toMap,
    ignored = longMetric(TemporalMetric.IgnoredVersions),
    kept = longMetric("numUpdatedStateRows"),
    evicted = longMetric("numRemovedStateRows")
  )

  /** The version of a key is a row of the right input. */
  override protected def countRows(state: JoinState): Unit = {
    longMetric(TemporalMetric.Keys) += state.keys
    Side.both.foreach { side =>
      val rows = state.rows(side) + (if (side == Side.Right) state.keys else 0L)
      longMetric("numTotalStateRows") += rows
      longMetric(TemporalMetric.rowsInState(side)) += rows
      state.lowest(side, 0).foreach(lowest => lowestTimes.add(side.index -> lowest))
    }
  }

  private def lateRows: Option[LateRows.Spec] =
    binding.filter(_ => StreamJoinConf.keepsLateRows).map { batch =>
      val inputs = Side.both.map { side =>
        val input = if (side == Side.Left) left else right
        side -> LateRows.Input(times(side.index).name, Seq(times(side.index)), input.output)
      }
      LateRows.Spec(batch.lateRows.toString, batch.batch, Some(ordinal + 1), inputs.toMap)
    }

  // The story: EXPLAIN and progress.

  override protected def progressFigures: Seq[(String, Long)] =
    times.zip(eviction).zip(Side.both).collect {
      case ((time, micros), side) if micros != Watermark.Undefined =>
        s"watermarkMs.${side.name}.${time.name}" -> microsToMillis(micros)
    }

  override def nodeName: String = RecognizeTemporalJoin.NodeName

  override def simpleString(maxFields: Int): String = s"$nodeName ${words.mkString(", ")}"

  override def verboseStringWithOperatorId(): String =
    s"$formattedNodeName\n${words.map(line => s"  $line").mkString("\n")}\n"

  private def words: Seq[String] = Seq(
    plan.joinType,
    s"${plan.rule.words} by left.${times.head.name}, versions by right.${times(1).name}",
    if (leftKeys.isEmpty) "no equality" else s"equality ${plan.keys}",
    if (plan.condition == "true") "no other condition" else s"condition ${plan.condition}",
    if (leftKeys.isEmpty) "all rows in one task, with one state store"
    else s"hash of the equality over $numPartitions tasks, one state store each"
  )
}

private[streamjoin] object TemporalJoinExec {

  /** In the progress of a query. */
  val OperatorName = "streamTemporalJoin"
}

/** The figures of a temporal join in the progress of its query. */
private[temporal] object TemporalMetric {
  val JoinedRows = "joinedRows"
  val PaddedRows = "paddedRows"
  val IgnoredVersions = "ignoredVersions"
  val Keys = "keysWithVersion"
  def rowsInState(side: Side): String = s"${side.name}RowsInState"
  def lateRows(side: Side): String = s"${side.name}LateRows"

  val all: Seq[(String, String)] = Seq(
    JoinedRows -> "rows with a version",
    PaddedRows -> "rows without a version that were emitted",
    IgnoredVersions -> "versions without a key or a time",
    Keys -> "keys that have a version"
  ) ++ Side.both.flatMap { side =>
    Seq(
      rowsInState(side) -> s"rows of the ${side.name} input in state",
      lateRows(side) -> s"rows of the ${side.name} input dropped as late"
    )
  }
}
