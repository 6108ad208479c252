package org.apache.spark.sql.streamjoin.joins.interval

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.streamjoin.evolve.StateStep
import org.apache.spark.sql.streamjoin.laterows.LateRows
import org.apache.spark.sql.streamjoin.observe.collect.TaskReport
import org.apache.spark.sql.streamjoin.operator.{
  BufferLimits,
  BufferingTask,
  Placement,
  StateSpec,
  TaskInputs,
  TaskMetrics
}
import org.apache.spark.sql.streamjoin.state.{JoinState, RowLayout}

import streamjoin.core.{JoinType, Side}

/**
 * The data that each task of a batch needs.
 *
 * @param pair
 *   condition that a pair found by a probe must still satisfy
 * @param broadcastMemory
 *   memory limit of the broadcast side, in bytes
 * @param broadcast
 *   side whose rows are sent to every task
 * @param before
 *   steps over the rows in state before the rows of the batch are read
 * @param leaving
 *   whether the state may have rows that can match nothing, taken over from Spark's own join
 */
final private[streamjoin] case class IntervalTaskSpec(
    joinType: JoinType,
    sides: Map[Side, SideSpec],
    pair: Option[Expression],
    output: Seq[Attribute],
    limits: BufferLimits,
    broadcastMemory: Long,
    broadcast: Option[Side],
    before: Seq[StateStep],
    lateRows: Option[LateRows.Spec],
    override val observed: Option[Seq[Option[Long]]],
    override val samplesKeys: Boolean,
    leaving: Boolean
) extends StateSpec {
  override def layouts: Seq[RowLayout] = Side.both.map(sides(_).layout)

  override def bucketWidths: Seq[Long] = Side.both.map(sides(_).bucketWidth)

  override def placed: Seq[Placement] = Side.both.map { side =>
    if (broadcast.contains(side)) Placement.InTask(IntervalTaskSpec.BroadcastKeeper)
    else if (broadcast.isDefined) Placement.Anywhere
    else Placement.ByFields(sides(side).layout.keys.toSeq)
  }

  override def replicated(partition: Int): Option[StateSpec.Replicated] =
    broadcast
      .filter(_ => partition != IntervalTaskSpec.BroadcastKeeper)
      .map(StateSpec.Replicated(_, broadcastMemory, IntervalTaskSpec.BroadcastKeeper))

  override def task(of: TaskInputs): BufferingTask = new IntervalJoinTask(this, of)

  override def count(state: JoinState, report: TaskReport, metrics: TaskMetrics): Unit = {
    val rowsInState = metrics.bySide("rowsInState")
    Side.both.foreach { side =>
      if (!state.isReplicated(side)) {
        metrics("numTotalStateRows") += state.rows(side)
        rowsInState(side) += state.rows(side)
        report.add(side, state.rows(side), state.payload(side))
      }
      sides(side).expiryKeys.zipWithIndex.foreach { case (key, at) =>
        report.keeps(key, state.lowest(side, at))
      }
    }
    metrics("payloadBytes") += state.size.payload
  }
}

private object IntervalTaskSpec {

  /** The task that stores the broadcast side. */
  val BroadcastKeeper = 0
}
