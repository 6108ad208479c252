package org.apache.spark.sql.streamjoin.plans

import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.streamjoin.base.StreamJoinErrors
import org.apache.spark.sql.streamjoin.watermark.{ColumnWatermark, RowConstraints}

import streamjoin.core.TimeBound

/**
 * One of our stateful operators of any kind, as seen by the rest of a plan.
 *
 * Watermark keys number the event-time columns of its inputs, from the first input to the last.
 */
private[streamjoin] trait StatefulNode extends LogicalPlan {

  /** Name of the kind in checkpoints: `interval_join`. */
  def kind: String

  /** Number among our operators of the query, from the inputs up; also the number of its state. */
  def ordinal: Int

  /** The output watermark of an emitted column, if the column has one. */
  def outputWatermark(column: Attribute): Option[ColumnWatermark]

  /** The constraints between the event times of each emitted row. */
  def rowConstraints: RowConstraints

  /** Constraints between the event times of each row of an input, by watermark key. */
  def known: Seq[TimeBound]

  /** The first watermark key by which the rows leave that have a key; none if they may stay. */
  def leavesBy(key: Int): Option[Int]

  /** Spark's stateful operators above receive the smallest of these as their watermark. */
  def outputWatermarksForSpark: Seq[ColumnWatermark]

  /** The watermarks received, by watermark key. */
  def watermarks: IndexedSeq[ColumnWatermark]

  /** The received watermarks that decide when a row is evicted. */
  def evictedBy: Seq[ColumnWatermark]

  /** The watermark key of an event-time column, and the watermark that is received for it. */
  def received(column: Attribute): Option[(Int, ColumnWatermark)]

  /**
   * The number of partitions, if an output row is in the same partition in every attempt at a
   * batch.
   */
  def partitions: Option[FirstPartitions]

  /** The number of its tasks; none if it does not depend on settings. */
  def tasks: Option[FirstPartitions]

  /**
   * The operator, once it is known which columns a stateful Spark operator above awaits.
   *
   * @param lags
   *   by watermark key: how far Spark's watermark must stay below ours, in microseconds
   */
  def awaiting(lags: Map[Int, Long]): StatefulNode

  /** Whether it emits rows on eviction, and so later than Spark's own watermark may allow. */
  def emitsOnEviction: Boolean

  /** Whether it may run in update mode: no row that it emits retracts another one. */
  def runsInUpdateMode: Boolean

  /** User-visible name: the type of a join. */
  def typeName: String

  /**
   * The error for a watermark key whose output watermark never moves.
   *
   * @param waiting
   *   the operation that awaits it
   */
  def undefinedWatermark(key: Int, waiting: String): AnalysisException

  /** The properties that must not change while a checkpoint is in use. */
  def description: OperatorDescription
}

/**
 * The properties that must not change while the state of an operator is in use, as text.
 *
 * @param written
 *   properties from the query; known and checked when the query starts
 * @param planned
 *   properties that the optimizer decides, such as the buffered columns; checked in the first batch
 *   of a run
 * @param derived
 *   what follows from the others, for programs; recorded, but not compared
 */
final private[streamjoin] case class OperatorDescription(
    written: Map[String, String],
    planned: Map[String, String],
    derived: Map[String, String] = Map.empty
) {
  def all: Map[String, String] = written ++ planned
}

/**
 * An operator that buffers and emits its rows in the order of one time, the column with watermark
 * key 0.
 */
private[streamjoin] trait RowtimeNode extends StatefulNode {

  /** The event-time columns, by watermark key. */
  def times: Seq[Attribute]

  /** Each task has a range of times, a different one in every batch. */
  override def partitions: Option[FirstPartitions] = None

  override def emitsOnEviction: Boolean = true

  /** Rows are emitted once and in time order, so later rows cannot update them. */
  override def runsInUpdateMode: Boolean = false

  override def undefinedWatermark(key: Int, waiting: String): AnalysisException =
    StreamJoinErrors.analysis(
      "STREAMJOIN_ORDER_WATERMARK",
      "waits" -> waiting,
      "column" -> times(key).name,
      "time" -> times.head.name
    )
}
