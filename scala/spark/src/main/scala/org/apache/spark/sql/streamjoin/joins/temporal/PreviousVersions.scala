package org.apache.spark.sql.streamjoin.joins.temporal

import java.util.BitSet

import scala.annotation.tailrec
import scala.collection.mutable

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.streamjoin.state.{ClosestRows, JoinState}

import streamjoin.core.{Side, Watermark}

/**
 * Fills in the missing values of a buffered version from the versions before it.
 *
 * Versions older than all buffered ones are in the table, or they reach it with this batch. They
 * are known only when facts are merged with them ([[KeyedVersions]]), so a fact whose version takes
 * a value from them waits until then.
 *
 * The facts of a key come in the order of time. The version that was filled last is remembered for
 * each key, so each version is filled once, however many facts and versions the key has.
 *
 * Called after versions have left the buffer; the buffer must not change afterwards.
 */
final private[temporal] class PreviousVersions(
    spec: TemporalTaskSpec,
    state: JoinState,
    values: VersionValues
) {
  import PreviousVersions._

  private val (facts, versions) = (spec.inputs.head, spec.inputs(1))
  private val later: Ordering[InternalRow] = SortedRows.byTime(versions, spec.laterOfOneTime)
  private lazy val rows = state.closest(Side.Right, facts.layout, later)
  private val keyOf = UnsafeProjection.create(facts.keys, facts.output)

  /** By key. */
  private val filled = mutable.HashMap.empty[UnsafeRow, Filled]
  private var bytes = 0L

  /** Hashes of the keys of facts that wait, in part: another fact is only looked up once more. */
  private val waiting = new BitSet(Waiting)

  private def part(fact: UnsafeRow): Int =
    facts.layout.hash(fact.getBaseObject, fact.getBaseOffset) & (Waiting - 1)

  /**
   * The version of a fact with the values that were not sent filled in. Null if there is no
   * version, or if it takes a value from one that is older than all buffered ones.
   */
  def withValues(fact: UnsafeRow, version: UnsafeRow): UnsafeRow =
    if (version == null || !values.asksBefore(version)) version
    else {
      val result = fill(fact, version.copy(), None)
      if (result == null) waiting.set(part(fact))
      result
    }

  /**
   * The version of a fact that waited.
   *
   * @param oldest
   *   the last version of its key that is older than all buffered ones, or null: the version of a
   *   fact that has no buffered one
   */
  def withOldest(fact: UnsafeRow, oldest: UnsafeRow): UnsafeRow =
    if (!waiting.get(part(fact))) oldest
    else {
      val version = rows.last(fact, Long.MinValue, fact.getLong(facts.field))
      if (version == null) oldest
      else if (!values.asksBefore(version)) version
      else fill(fact, version.copy(), Some(oldest))
    }

  /**
   * @param oldest
   *   the last version that is older than all buffered ones, or null; none if it is not known yet
   * @return
   *   null if it would have to be known
   */
  private def fill(fact: UnsafeRow, version: UnsafeRow, oldest: Option[UnsafeRow]): UnsafeRow = {
    val key = keyOf(fact)
    val last = filled.get(key).filter(known => known.result != null || oldest.isEmpty).orNull

    /** The row with its values, from the versions that ask for them, the newest last. */
    @tailrec
    def from(row: UnsafeRow, asking: List[UnsafeRow]): UnsafeRow =
      if (row == null)
        if (oldest.isDefined) asking.foldLeft(oldest.get)(filledFrom) else null
      else if (last != null && last.version == row)
        if (last.result != null) asking.foldLeft(last.result)(filledFrom) else null
      else if (isReplaced(row, asking)) from(previous(fact, row), asking)
      else if (!values.asksBefore(row)) asking.foldLeft(row)(filledFrom)
      else from(previous(fact, row), row :: asking)

    val result = from(version, Nil)
    remember(key, Filled(version, result))
    result
  }

  /** Whether it is the row before the update that asks, which does not end its key. */
  private def isReplaced(row: UnsafeRow, asking: List[UnsafeRow]): Boolean = {
    def time(of: UnsafeRow) = of.getLong(versions.field)
    values.isBeforeUpdate(row) && asking.headOption.exists(time(_) == time(row))
  }

  private def filledFrom(before: UnsafeRow, version: UnsafeRow): UnsafeRow = values.filled(version, before)

  private def remember(key: UnsafeRow, known: Filled): Unit = {
    if (bytes > MostBytes) {
      filled.clear()
      bytes = 0
    }
    bytes += known.bytes
    filled(key.copy()) = known
  }

  /** A copy of the buffered version of the key before another one, or null. */
  private def previous(fact: UnsafeRow, row: UnsafeRow): UnsafeRow = {
    val time = row.getLong(versions.field)
    val atOnce = versionsBefore(row).last(fact, time, time)
    val found =
      if (atOnce != null && later.lt(atOnce, row)) atOnce
      else rows.last(fact, Long.MinValue, Watermark.postponed(time, 1))
    if (found == null) null else found.copy()
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

private object PreviousVersions {

  /** How many bits distinguish the keys of facts that wait; a power of two. */
  private val Waiting = 1 << 16

  /** The bytes of versions that are remembered. */
  private val MostBytes = 16L << 20

  /**
   * A version that asks for values, and its values.
   *
   * @param result
   *   null if it takes a value from a version older than all buffered ones
   */
  final private case class Filled(version: UnsafeRow, result: UnsafeRow) {
    def bytes: Long = version.getSizeInBytes.toLong + (if (result == null) 0 else result.getSizeInBytes)
  }
}
