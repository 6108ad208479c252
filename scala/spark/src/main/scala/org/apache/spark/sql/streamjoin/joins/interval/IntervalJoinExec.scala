package org.apache.spark.sql.streamjoin.joins.interval

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.physical._
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.streamjoin.base.PredicateParts
import org.apache.spark.sql.streamjoin.checkpoint.{InputOutline, KeepingLimit, OperatorOutline}
import org.apache.spark.sql.streamjoin.batch.BatchBinding
import org.apache.spark.sql.streamjoin.operator.{JoinMetric, RowCounts, TwoStreamsExec, WholeRow}
import org.apache.spark.sql.streamjoin.watermark.{ColumnWatermark, WatermarkValues}

import streamjoin.core.{JoinType, Side, Watermark}

/**
 * The interval join of two streams, with state bounded by the watermarks of its event-time columns.
 *
 * {{{
 *   orders -- hash(order_id) --+                        +-- orders kept 1 hour --+
 *                              +-- task: probe, emit ---+                        +-- state store
 *   deliveries - hash(order_id)+                        +-- deliveries kept 0 s -+   (one per task)
 * }}}
 *
 * The time bounds in the condition bound the state. With `d.time BETWEEN o.time AND o.time + 1
 * hour`, a delivery at 12:00 can only belong to an order at 11:00 or later. Once the watermark of
 * `d.time` has reached 12:00, no delivery before 12:00 can still arrive, so orders before 11:00 can
 * be evicted. Likewise, once that of `o.time` has reached 12:00, deliveries before 12:00 can be
 * evicted. Each column has its own watermark: a stalled stream holds back the state of its partner
 * and nothing else in the query.
 *
 * @param join
 *   plan of the join, as data
 * @param binding
 *   the batch, or none if the plan is only explained
 */
final private[streamjoin] case class IntervalJoinExec(
    leftKeys: Seq[Expression],
    rightKeys: Seq[Expression],
    conjuncts: Seq[Expression],
    override val times: Seq[Attribute],
    join: IntervalJoinSpec,
    override val binding: Option[BatchBinding],
    left: SparkPlan,
    right: SparkPlan
) extends TwoStreamsExec {

  override def shortName: String = IntervalJoinExec.OperatorName

  override lazy val output: Seq[Attribute] = join.output(left.output, right.output)

  override def ordinal: Int = join.ordinal

  override protected def firstPartitions(set: Int): Int =
    join.routing.partitions.number(set, tasksAtOnce)

  override def requiredChildDistribution: Seq[Distribution] = join.routing match {
    case Routing.ByKey => Seq(leftKeys, rightKeys).map(StatefulOpClusteredDistribution(_, numPartitions))
    case Routing.OneTask => Seq(AllTuples, AllTuples)
    case Routing.Spread(broadcast) =>
      Side.both.map { side =>
        // The strategy has already sent it to all tasks.
        if (side == broadcast) UnspecifiedDistribution
        else StatefulOpClusteredDistribution(WholeRow.hashed(input(side).output), numPartitions)
      }
  }

  /** A padded row stays in the partition of its own key; the other side's keys are null. */
  override def outputPartitioning: Partitioning = (join.routing, join.joinType) match {
    case (Routing.Spread(broadcast), _) => input(broadcast.other).outputPartitioning
    case (_, JoinType.Inner) =>
      PartitioningCollection(Seq(left.outputPartitioning, right.outputPartitioning))
    case (_, JoinType.LeftOuter | JoinType.LeftSemi | JoinType.LeftAnti) => left.outputPartitioning
    case (_, JoinType.RightOuter) => right.outputPartitioning
    case (_, JoinType.FullOuter) => UnknownPartitioning(left.outputPartitioning.numPartitions)
  }

  override protected def withNewChildrenInternal(newLeft: SparkPlan, newRight: SparkPlan): IntervalJoinExec =
    copy(left = newLeft, right = newRight)

  // Watermarks and state.

  override def watermarks: IndexedSeq[ColumnWatermark] = join.watermarks

  override protected def outputWatermarksForSpark: Seq[ColumnWatermark] = join.outputWatermarksForSpark

  override protected def evictionLimits(values: WatermarkValues): IndexedSeq[Long] = {
    val received = watermarks.map(_.value(values))
    received.indices.map(key => join.bounds.evictionLimit(key, received))
  }

  // Execution.

  override protected def ownMetrics: Seq[(String, String)] = IntervalJoinMetric.all

  override protected def doExecute(): RDD[InternalRow] = {
    val tasks = tasksOfBatch
    val limits = evictionLimits(binding.get.evictionValues)
    val spec = IntervalTaskSpec.of(
      this,
      late,
      limits,
      observed(Side.both.map(side => join.bounds.bounded(side).headOption)),
      binding.get.observedRows(ordinal).samplesKeys
    )
    val hadoopConf = binding.get.hadoopConf
    zipped(left.execute(), right.execute()) { (partition, leftRows, rightRows) =>
      val configuration = hadoopConf.value.value
      val broadcast = spec
        .replicated(partition)
        .map(tasks.replicated(_, spec.broadcastMemory, IntervalTaskSpec.BroadcastKeeper, configuration))
      tasks.run(spec, partition, configuration, broadcast)(
        new IntervalJoinTask(spec, partition, leftRows, rightRows, _, tasks.taskMetrics, _)
      )
    }
  }

  override protected def rowCounts: RowCounts = {
    val bounded = Side.both.map(side => side -> join.bounds.bounded(side))
    (state, report, metrics) => {
      bounded.foreach { case (side, keys) =>
        if (!state.isReplicated(side)) {
          metrics("numTotalStateRows") += state.rows(side)
          metrics(JoinMetric.rowsInState(side)) += state.rows(side)
          report.add(side, state.rows(side), state.payload(side))
        }
        keys.zipWithIndex.foreach { case (key, at) => report.keeps(key, state.lowest(side, at)) }
      }
      metrics(JoinMetric.PayloadBytes) += state.size.payload
    }
  }

  override protected def makeOutline: OperatorOutline = {
    val unknown = times.map(_ => Watermark.Undefined).toIndexedSeq
    val spec = IntervalTaskSpec.of(this, unknown, unknown)
    OperatorOutline(
      ordinal,
      IntervalJoin.Kind,
      s"${join.joinType.name.replace('_', ' ')} interval join",
      columnsInWords,
      Side.both.map { side =>
        val kept = spec.sides(side)
        InputOutline(
          Some(side.name),
          names.name(side),
          DataTypeUtils.fromAttributes(kept.stored),
          kept.output.size,
          kept.layout,
          join.bounds.bounded(side),
          join.bounds.bounded(side).zipWithIndex.flatMap { case (key, at) =>
            join.bounds.tightest
              .filter(_.out == key)
              .map(bound => KeepingLimit(at, bound.in, bound.postpone))
          },
          recordsMatches = join.joinType.pads(side)
        )
      }
    )
  }

  // EXPLAIN and progress.

  override def nodeName: String = RecognizeIntervalJoin.NodeName

  override protected def sides: IndexedSeq[Side] = join.sides

  override protected def expressionsInWords: Seq[Expression] = leftKeys ++ rightKeys ++ conjuncts

  override protected def words: Seq[String] =
    new IntervalJoinExplain(join, times, names, watermarksInWords)
      .description(leftKeys, rightKeys, PredicateParts.all(conjuncts), numPartitions)
}

private[streamjoin] object IntervalJoinExec {

  /** The name in the progress. EXPLAIN capitalizes it, like the names of Spark's operators. */
  val OperatorName = "streamIntervalJoin"
}
