package org.apache.spark.sql.streamjoin.joins.temporal

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.streamjoin.state.JoinState

import streamjoin.core.{AsOf, Side, Watermark}

/** Finds the version for a fact among those buffered by time. */
final private[temporal] class TimedVersions(spec: TemporalTaskSpec, state: JoinState) {
  private val (facts, versions) = (spec.inputs.head, spec.inputs(1))
  private val rows =
    state.closest(Side.Right, facts.layout, SortedRows.byTime(versions, spec.laterOfOneTime))
  private val kept = new UnsafeRow(versions.output.size)

  /** The closest version under the rule, or null; valid until the next call. */
  def versionOf(fact: UnsafeRow): UnsafeRow = {
    val at = fact.getLong(facts.field)
    spec.rule.direction match {
      case AsOf.Backward => before(fact, at)
      case AsOf.Forward => after(fact, at, spec.rule.allowsExact)
      case AsOf.Nearest =>
        val last = before(fact, at)
        if (last == null) after(fact, at, exact = false)
        else {
          kept.pointTo(last.getBaseObject, last.getBaseOffset, last.getSizeInBytes)
          val next = after(fact, at, exact = false)
          if (next != null && time(next) - at < at - time(kept)) next else kept
        }
    }
  }

  private def time(row: UnsafeRow): Long = row.getLong(versions.field)

  private def before(fact: UnsafeRow, at: Long): UnsafeRow =
    rows.last(
      fact,
      Watermark.postponed(at, spec.rule.behind),
      if (spec.rule.allowsExact) at else Watermark.postponed(at, 1)
    )

  private def after(fact: UnsafeRow, at: Long, exact: Boolean): UnsafeRow =
    rows.first(
      fact,
      if (exact) at else Watermark.postponed(at, -1),
      Watermark.postponed(at, -spec.rule.ahead)
    )
}
