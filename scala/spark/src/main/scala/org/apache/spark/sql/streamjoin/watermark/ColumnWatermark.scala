package org.apache.spark.sql.streamjoin.watermark

import java.util.UUID

import streamjoin.core.{TimeBounds, Watermark}

/**
 * An event-time column where it was marked, in any form of one query's plan: the node's id, and which of the nodes with
 * that id it is, top down and left to right. The copies of a stream that is joined with itself share the node's id
 * (`DeduplicateRelations` renews attributes only). The column's own id says nothing: the optimizer puts the source's
 * in its place (`RemoveRedundantAliases`).
 */
final private[streamjoin] case class Origin(node: UUID, occurrence: Int)

private[streamjoin] object Origin {

  /** The origins of the nodes of a plan, from their ids, top down and left to right. */
  def number(nodes: Seq[UUID]): Seq[Origin] =
    nodes.zipWithIndex.map { case (node, at) => Origin(node, nodes.take(at).count(_ == node)) }
}

/**
 * Where the watermark of a column somewhere in a plan comes from, as data: a pure function of the watermarks that a
 * batch has at its origins, so that every task and every replay get the same.
 */
sealed private[streamjoin] trait ColumnWatermark {

  /** In microseconds; [[Watermark.Undefined]] where no watermark is known yet. */
  def value(of: WatermarkValues): Long
}

private[streamjoin] object ColumnWatermark {

  /** The column as it was marked. */
  final case class Marked(origin: Origin) extends ColumnWatermark {
    override def value(of: WatermarkValues): Long = of.keyed(origin)
  }

  /** A column that is the other one plus a constant (microseconds, the lower end where clocks change). */
  final case class Shifted(by: Long, column: ColumnWatermark) extends ColumnWatermark {
    override def value(of: WatermarkValues): Long = Watermark.postponed(column.value(of), -by)
  }

  /** A union, position by position: the slowest branch counts. */
  final case class Smallest(branches: Seq[ColumnWatermark]) extends ColumnWatermark {
    override def value(of: WatermarkValues): Long = branches.map(_.value(of)).min
  }

  /** A column behind an operator of Spark's that keeps state: such operators follow Spark's one watermark. */
  case object SparkWide extends ColumnWatermark {
    override def value(of: WatermarkValues): Long = of.spark
  }

  /** A column behind a join of ours. */
  final case class Joined(columns: IndexedSeq[ColumnWatermark], bounds: TimeBounds, key: Int)
      extends ColumnWatermark {
    override def value(of: WatermarkValues): Long = bounds.output(key, columns(_).value(of))
  }
}

/**
 * The watermarks that one batch sees, in microseconds.
 *
 * @param keyed
 *   by origin; an origin that has none is undefined
 * @param spark
 *   Spark's own watermark, which its stateful operators use
 */
final private[streamjoin] case class WatermarkValues(byOrigin: Map[Origin, Long], spark: Long) {
  def keyed(origin: Origin): Long = byOrigin.getOrElse(origin, Watermark.Undefined)
}
