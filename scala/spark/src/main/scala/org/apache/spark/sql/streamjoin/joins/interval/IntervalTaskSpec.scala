package org.apache.spark.sql.streamjoin.joins.interval

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.streamjoin.evolve.StateStep
import org.apache.spark.sql.streamjoin.laterows.LateRows
import org.apache.spark.sql.streamjoin.observe.collect.TaskReport
import org.apache.spark.sql.streamjoin.operator.{
  BufferLimits,
  BufferingTask,
  MovedRow,
  Placement,
  StateSpec,
  TaskInputs,
  TaskMetrics
}
import org.apache.spark.sql.streamjoin.state.{JoinState, LifetimeWidth, RowLayout}

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
 *   whether the state may have rows that can match nothing, taken over from Spark's own join or
 *   from another query
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

  override def byLifetimes: Seq[Option[LifetimeWidth]] = Side.both.map(sides(_).byLifetimes)

  override def observedTimes: Seq[Int] = Side.both.map(side => math.max(0, sides(side).observedBound))

  override def placed: Seq[Placement] = Side.both.map { side =>
    if (broadcast.contains(side)) Placement.InTask(IntervalTaskSpec.BroadcastKeeper)
    else if (broadcast.isDefined) Placement.Anywhere
    else Placement.ByFields(sides(side).layout.keys.toSeq)
  }

  override def columns: Seq[Seq[Attribute]] = Side.both.map(sides(_).output)

  override def mover(side: Int, into: Int): (UnsafeRow, Boolean) => Option[MovedRow] = {
    val mover = new IntervalMover(this, Side.both(side), into)
    (row, isMatched) => mover.moved(row, isMatched)
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

/** Moves rows of an input that another query has stored into the state of this one. */
final private[interval] class IntervalMover(spec: IntervalTaskSpec, side: Side, into: Int) {
  private val own = spec.sides(side)
  private val joinType = spec.joinType
  private val reader = new SideReader(own)
  private val withKeys = own.projection
  private val place = spec.placed(side.index).partition(own.layout.types, into)
  private val pads = joinType.pads(side) && !spec.before.contains(StateStep.CountAsMatched(side))

  def moved(row: UnsafeRow, isMatched: Boolean): Option[MovedRow] =
    if (isMatched && joinType.leavesOnMatch(side)) None
    else {
      val stored = reader.toStoredRow(row)
      if (stored != null)
        Some(MovedRow.buffered(side, place(stored), stored, isMatched && joinType.pads(side)))
      else
        Option.when(pads && !isMatched)(MovedRow.leaving(side, place(withKeys.fold(row)(_(row))), row))
    }
}
