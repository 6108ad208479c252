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
 *   facts ---- hash(key) --+                                              +-- facts and versions that wait
 *                          +-- task: play what is due in order of time ---+-- the version of each key
 *   versions - hash(key) --+                                              +   (one state store per task)
 * }}}
 *
 * A row waits, whichever input it is of, until both watermarks have passed its time. Then all that
 * is due is played in the order of time: a version becomes that of its key, or takes it away, and a
 * fact meets the version that its key has by then. So of the past there is one row for each live
 * key, and nothing else.
 *
 * @param times
 *   the event-time column of each input
 */
final private[streamjoin] case class TemporalJoinExec(
    leftKeys: Seq[Expression],
    rightKeys: Seq[Expression],
    isDelete: Option[Expression],
    condition: Option[Expression],
    times: Seq[Attribute],
    plan: TemporalPlan,
    @transient override val binding: Option[BatchBinding],
    left: SparkPlan,
    right: SparkPlan
) extends BinaryExecNode
    with JoinStateExec {

  override def shortName: String = TemporalJoinExec.OperatorName

  override def output: Seq[Attribute] =
    left.output ++ (if (plan.isLeftOuter) right.output.map(_.withNullability(true)) else right.output)

  override def ordinal: Int = plan.ordinal

  override protected def firstPartitions(stores: Int): Int = stores

  override def requiredChildDistribution: Seq[Distribution] =
    Seq(leftKeys, rightKeys).map(StatefulOpClusteredDistribution(_, numPartitions))

  override def outputPartitioning: Partitioning = left.outputPartitioning

  override protected def withNewChildrenInternal(newLeft: SparkPlan, newRight: SparkPlan): TemporalJoinExec =
    copy(left = newLeft, right = newRight)

  // Watermarks and state.

  override def watermarks: IndexedSeq[ColumnWatermark] = plan.watermarks

  override protected def outputWatermarksForSpark: Seq[ColumnWatermark] =
    plan.awaited.forSpark(Seq(0), plan.outputWatermark)

  override protected def evictionLimits(values: WatermarkValues): IndexedSeq[Long] =
    IndexedSeq.fill(2)(plan.settled.value(values))

  override protected def readsOtherStores: Boolean = false

  /** Rows before this time have come out in the batches before. */
  private def emitted: Long =
    binding.fold(Watermark.Undefined)(batch => plan.settled.value(batch.emittedValues))

  /** Rows before this time come out in this batch. */
  private def due: Long = binding.fold(Watermark.Undefined)(batch => plan.settled.value(batch.evictionValues))

  /** The parts of time by which the rows of this batch are sorted. */
  def ranges: TimeRanges = TimeRanges(emitted, due, numPartitions)

  // Execution.

  override protected def ownMetrics: Seq[(String, String)] = TemporalMetric.all

  override protected def doExecute(): RDD[InternalRow] = {
    makeOnDriver()
    val inputs = Seq((left, leftKeys), (right, rightKeys)).zip(times).zip(late).map {
      case (((input, keys), time), lateBelow) =>
        // An input that was idle is judged by the watermark that it left; what is out is out.
        InputSpec(
          input.output,
          keys,
          time,
          math.max(lateBelow, emitted),
          BucketWidth.of(BucketWidth.delay(input))
        )
    }
    val spec = TemporalSpec(
      inputs,
      isDelete,
      condition,
      plan.isLeftOuter,
      plan.rule,
      due,
      conf.getConf(StreamJoinConf.IndexMemory),
      conf.getConf(StreamJoinConf.ExecutorIndexMemory),
      lateRows
    )
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
          new TemporalTask(spec, leftRows, rightRows, _, taskMetrics, _)
        )
      }
  }

  private def taskMetrics: TaskMetrics = TaskMetrics(
    joined = longMetric(TemporalMetric.JoinedRows),
    padded = longMetric(TemporalMetric.PaddedRows),
    late = longMetric("numRowsDroppedByWatermark"),
    lateBySide = Side.both.map(side => side -> longMetric(TemporalMetric.lateRows(side))).toMap,
    ignored = longMetric(TemporalMetric.IgnoredVersions),
    kept = longMetric("numUpdatedStateRows"),
    evicted = longMetric("numRemovedStateRows"),
    keys = longMetric(TemporalMetric.Keys)
  )

  override protected def countRows(state: JoinState): Unit = {
    Side.both.foreach { side =>
      longMetric("numTotalStateRows") += state.rows(side)
      longMetric(TemporalMetric.waitingRows(side)) += state.rows(side)
    }
    // A version that is due need not be played before a fact is.
    state.lowest(Side.Left, 0).foreach(lowest => lowestTimes.add(0 -> lowest))
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

  override protected def progressFigures: Seq[(String, Long)] = {
    val known = times.zip(eviction) :+ ((times.head.withName("output"), due))
    known.filter(_._2 != Watermark.Undefined).map { case (time, micros) =>
      s"watermarkMs.${time.name}" -> microsToMillis(micros)
    }
  }

  override def nodeName: String = RecognizeTemporalJoin.NodeName

  override def simpleString(maxFields: Int): String = s"$nodeName ${words.mkString(", ")}"

  override def verboseStringWithOperatorId(): String =
    s"$formattedNodeName\n${words.map(line => s"  $line").mkString("\n")}\n"

  private def words: Seq[String] = {
    val keys = leftKeys.zip(rightKeys).map { case (a, b) => s"${a.sql} = ${b.sql}" }.mkString(" AND ")
    Seq(
      if (plan.isLeftOuter) "left outer" else "inner",
      s"${plan.rule.words} by ${times.head.name}, versions by ${times(1).name}",
      s"on $keys",
      s"$numPartitions tasks, one state store each"
    )
  }
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
  def waitingRows(side: Side): String = s"${side.name}RowsInState"
  def lateRows(side: Side): String = s"${side.name}LateRows"

  val all: Seq[(String, String)] = Seq(
    JoinedRows -> "rows with a version",
    PaddedRows -> "rows without a version that were emitted",
    IgnoredVersions -> "versions without a key or a time",
    Keys -> "keys that have a version"
  ) ++ Side.both.flatMap { side =>
    Seq(
      waitingRows(side) -> s"rows of the ${side.name} input that wait",
      lateRows(side) -> s"rows of the ${side.name} input dropped as late"
    )
  }
}
