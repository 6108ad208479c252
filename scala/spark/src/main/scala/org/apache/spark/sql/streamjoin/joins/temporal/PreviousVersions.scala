package org.apache.spark.sql.streamjoin.joins.temporal

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.streamjoin.state.{ClosestRows, JoinState}

import streamjoin.core.{Side, Watermark}

/**
 * Fills in the missing values of a buffered version from the versions before it.
 *
 * @param newest
 *   looks up the version of a fact's key that is older than all buffered ones, or null
 */
final private[temporal] class PreviousVersions(
    spec: TemporalTaskSpec,
    state: JoinState,
    values: Option[VersionValues],
    newest: UnsafeRow => UnsafeRow
) {
  private val (facts, versions) = (spec.inputs.head, spec.inputs(1))
  private val later: Ordering[InternalRow] = SortedRows.byTime(versions, spec.laterOfOneTime)
  private lazy val rows = state.closest(Side.Right, facts.layout, later)

  /** The version of a fact, or null, with the values that were not sent filled in. */
  def withValues(fact: UnsafeRow, version: UnsafeRow): UnsafeRow = values match {
    case Some(known) if version != null && known.asksBefore(version) =>
      val row = version.copy()
      known.filled(row, withValues(fact, previous(fact, row)))
    case _ => version
  }

  /** The version of the key before another one, or null. */
  private def previous(fact: UnsafeRow, row: UnsafeRow): UnsafeRow = {
    val time = row.getLong(versions.field)
    val atOnce = versionsBefore(row).last(fact, time, time)
    if (atOnce != null && later.lt(atOnce, row)) atOnce
    else {
      val found = rows.last(fact, Long.MinValue, Watermark.postponed(time, 1))
      if (found != null) found else newest(fact)
    }
  }

  /** Finds the last version of the same time before this one, if there is one. */
  private def versionsBefore(limit: UnsafeRow): ClosestRows = state.closest(
    Side.Right,
    facts.layout,
    (one, other) =>
      (later.lt(one, limit), later.lt(other, limit)) match {
        case (true, true) => later.compare(one, other)
        case (first, second) => first.compare(second)
      }
  )
}
