package org.apache.spark.sql.streamjoin.analysis

import scala.annotation.unused

import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.logical.Statistics
import org.apache.spark.sql.streamjoin.plans.{FirstPartitions, StatefulNode}
import org.apache.spark.sql.streamjoin.watermark.{ColumnWatermark, ReceivedWatermarks}

import streamjoin.core.TimeBound

/**
 * The definition of a stateful operator, as data: computed once, by analysis, for the logical and
 * the physical node.
 */
private[streamjoin] trait OperatorSpec {

  /** Position of the operator in the query, from the inputs up: the number of its state. */
  def ordinal: Int

  /** Watermarks received for event-time columns, by watermark key from 0. */
  def watermarks: IndexedSeq[ColumnWatermark]

  /** By watermark key. */
  def outputWatermark(key: Int): ColumnWatermark

  /** The watermark keys that have an output watermark. */
  protected def outputKeys: Seq[Int]

  final def outputWatermarks: Seq[ColumnWatermark] = outputKeys.map(outputWatermark)

  /** Watermark keys of columns that are emitted. */
  protected def emittedKeys: Seq[Int]

  def awaited: AwaitedKeys

  /**
   * By the watermark key of each column that evicts rows: the keys of the columns that its times
   * are compared with. The other columns say nothing about it: one may be days ahead or behind.
   */
  def compared: Map[Int, Set[Int]] = ReceivedWatermarks.each(watermarks)

  /** Constraints between the event times of each row of an input, by watermark key. */
  def known: Seq[TimeBound] = Nil

  /** The first watermark key by which the rows leave that have a key; none if they may stay. */
  def leavesBy(@unused key: Int): Option[Int] = Some(0)

  /** The number of its tasks; none if it does not depend on settings. */
  def tasks: Option[FirstPartitions]

  final def outputWatermarksForSpark: Seq[ColumnWatermark] = awaited.forSpark(emittedKeys, outputWatermark)

  /** Plans are hashed often, and the ordinal distinguishes the operators of a query. */
  override def hashCode: Int = ordinal

  /** For Spark's texts of logical plans. */
  override def toString: String = s"operator ${ordinal + 1}"
}

/** A logical node with its [[OperatorSpec]]. */
private[streamjoin] trait SpecifiedNode extends StatefulNode {
  def plan: OperatorSpec

  /** Event-time columns by watermark key. */
  def times: Seq[Attribute]

  final override def ordinal: Int = plan.ordinal

  final override def tasks: Option[FirstPartitions] = plan.tasks

  final override def watermarks: IndexedSeq[ColumnWatermark] = plan.watermarks

  private def key(column: Attribute): Option[Int] =
    Some(times.indexWhere(_.exprId == column.exprId)).filter(_ >= 0)

  final override def outputWatermark(column: Attribute): Option[ColumnWatermark] =
    key(column).map(plan.outputWatermark)

  final override def outputWatermarksForSpark: Seq[ColumnWatermark] = plan.outputWatermarksForSpark

  final override def known: Seq[TimeBound] = plan.known

  final override def leavesBy(key: Int): Option[Int] = plan.leavesBy(key)

  final override def received(column: Attribute): Option[(Int, ColumnWatermark)] =
    key(column).filter(plan.watermarks.indices.contains).map(key => key -> plan.watermarks(key))

  /** Not derived from the rows of the batch: even a small batch also emits rows from state. */
  final override def stats: Statistics = Statistics(sizeInBytes = conf.defaultSizeInBytes)
}
