package org.apache.spark.sql.streamjoin.plans

import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.streamjoin.watermark.{ColumnWatermark, RowConstraints}

/**
 * An operator of ours that keeps state, as the rest of a plan sees it, whatever its kind.
 *
 * Its watermark keys number the event-time columns of its inputs, from the first input to the last.
 */
private[streamjoin] trait StatefulNode extends LogicalPlan {

  /** What it is, in checkpoints: `interval_join`. */
  def kind: String

  /** Its place among our operators of the query, from the inputs up: the number of its state. */
  def ordinal: Int

  /** The output watermark of a column that it emits, if the column has one. */
  def outputWatermark(column: Attribute): Option[ColumnWatermark]

  /** What holds between the event times in every row that it emits. */
  def rowConstraints: RowConstraints

  /** What Spark's stateful operators above are given as their watermark: the smallest of these. */
  def outputWatermarksForSpark: Seq[ColumnWatermark]

  /** The watermarks as they are received that decide when a row leaves. */
  def evictedBy: Seq[ColumnWatermark]

  /** The watermark key of an event-time column, and the column's watermark as it is received. */
  def received(column: Attribute): Option[(Int, ColumnWatermark)]

  /**
   * The number of its partitions, where a row of its output is in the same one in every attempt at
   * a batch.
   */
  def partitions: Option[FirstPartitions]

  /**
   * The same operator, once it is known which columns a stateful operator of Spark's above awaits.
   *
   * @param lags
   *   by watermark key: by how many microseconds the watermark that Spark is given has to be lower
   */
  def awaiting(lags: Map[Int, Long]): StatefulNode

  /** It emits rows when they are evicted, and so later than Spark's own watermark may allow. */
  def emitsOnEviction: Boolean

  /** It may run in a query in update mode: no row that it emits takes another one back. */
  def runsInUpdateMode: Boolean

  /** What users call it: the type of a join. */
  def typeName: String

  /**
   * The error for a watermark key whose output watermark never moves.
   *
   * @param waiting
   *   who awaits it
   */
  def undefinedWatermark(key: Int, waiting: String): AnalysisException

  /** What must not change while a checkpoint is in use. */
  def description: OperatorDescription
}

/**
 * What must not change while the state of an operator is in use, as text.
 *
 * @param written
 *   what the query says. It is known, and checked, when the query starts.
 * @param planned
 *   what the optimizer makes of it, such as the columns that are kept. It is checked in the first
 *   batch of a run.
 */
final private[streamjoin] case class OperatorDescription(
    written: Map[String, String],
    planned: Map[String, String]
) {
  def all: Map[String, String] = written ++ planned
}
