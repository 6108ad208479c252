package org.apache.spark.sql.streamjoin.joins.temporal

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.streamjoin.state.JoinState

import streamjoin.core.{AsOf, Side, Watermark}

/** Finds the version for a fact among those buffered by time. */
final private[temporal] class TimedVersions(
    spec: TemporalTaskSpec,
    state: JoinState,
    values: Option[VersionValues],
    newest: UnsafeRow => UnsafeRow
) {
  private val (facts, versions) = (spec.inputs.head, spec.inputs(1))
  private val rows =
    state.closest(Side.Right, facts.layout, SortedRows.byTime(versions, spec.laterOfOneTime))
  private val kept = new UnsafeRow(versions.output.size)

  /** The closest version under the rule, or null; valid until the next call. */
  def versionOf(fact: UnsafeRow): UnsafeRow = {
    val at = fact.getLong(facts.field)
    spec.rule.direction match {
      case AsOf.Backward => notAfter(fact, at)
      case AsOf.Forward => after(fact, at, spec.rule.allowsExact)
      case AsOf.Nearest =>
        val last = notAfter(fact, at)
        if (last == null) after(fact, at, exact = false)
        else {
          kept.pointTo(last.getBaseObject, last.getBaseOffset, last.getSizeInBytes)
          val next = after(fact, at, exact = false)
          if (next != null && time(next) - at < at - time(kept)) next else kept
        }
    }
  }

  /** The version with what was not sent taken from those before it. */
  def withValues(fact: UnsafeRow, version: UnsafeRow): UnsafeRow = values match {
    case Some(known) if version != null && known.asksBefore(version) =>
      val row = version.copy()
      known.filled(row, withValues(fact, previous(fact, row)))
    case _ => version
  }

  /** The version of the key before another one, or null. */
  private def previous(fact: UnsafeRow, row: UnsafeRow): UnsafeRow = {
    val atOnce = versionsBefore(row).last(fact, time(row), time(row))
    if (atOnce != null && later.lt(atOnce, row)) atOnce
    else {
      val found = rows.last(fact, Long.MinValue, Watermark.postponed(time(row), 1))
      if (found != null) found else newest(fact)
    }
  }

  private val later = SortedRows.byTime(versions, spec.laterOfOneTime)

  /** Finds the last of the versions of one time that are before this one, if there are any. */
  private def versionsBefore(limit: UnsafeRow) = state.closest(
    Side.Right,
    facts.layout,
    (one, other) =>
      (later.lt(one, limit), later.lt(other, limit)) match {
        case (true, true) => later.compare(one, other)
        case (first, second) => first.compare(second)
      }
  )

  private def time(row: UnsafeRow): Long = row.getLong(versions.field)

  private def notAfter(fact: UnsafeRow, at: Long): UnsafeRow =
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
