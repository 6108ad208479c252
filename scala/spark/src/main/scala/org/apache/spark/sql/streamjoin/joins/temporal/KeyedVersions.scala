package org.apache.spark.sql.streamjoin.joins.temporal

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.streamjoin.operator.RowIterator
import org.apache.spark.sql.streamjoin.state.JoinState

import streamjoin.core.Watermark

/**
 * Implements rules under which a version is valid until the next one of its key. It has a table
 * with the newest version of each key, and the versions that this batch adds to it. Both are merged
 * with the facts that need them, key by key.
 */
final private[temporal] class KeyedVersions(
    spec: TemporalTaskSpec,
    state: JoinState,
    isDelete: UnsafeRow => Boolean,
    values: Option[VersionValues]
) {
  private val (left, right) = (spec.inputs.head, spec.inputs(1))
  private val table = state.versionTable(right.keys.size, right.output.size)
  private val keyOf = UnsafeProjection.create(right.keys, right.output)
  private val factKeyOf = UnsafeProjection.create(left.keys, left.output)
  private val later = SortedRows.byTime(right, spec.laterOfOneTime)

  private val facts = SortedRows.byKey(left, SortedRows.by(left, Nil))
  private val versions = SortedRows.byKey(right, spec.laterOfOneTime)

  /**
   * Classifies a version below the late limit: later facts join it only if it is the newest of its
   * key. It is compared with the state of the table before the batch, so the order of rows within
   * the batch does not matter.
   */
  def place(version: UnsafeRow): KeyedVersions.Place = {
    val known = table.get(keyOf(version), right.late)
    if (known == null || later.gt(version, known)) KeyedVersions.Newest
    else if (known.getLong(right.field) > version.getLong(right.field)) KeyedVersions.Past
    else KeyedVersions.Replaced
  }

  /** Adds a version; the newest one of its key enters the table. */
  def add(version: UnsafeRow): Unit = versions.add(version)

  def addFact(fact: UnsafeRow): Unit = facts.add(fact)

  /**
   * @param resultOf
   *   output row for a fact and its version, which may be null; null if nothing is emitted
   */
  def merged(resultOf: (UnsafeRow, UnsafeRow) => InternalRow): Iterator[InternalRow] = new RowIterator {
    private lazy val sorted = facts.sorted
    private lazy val known = {
      table.expect(versions.size, versions.bytes)
      new VersionCursor(spec, versions.sorted, newest, keep, values, newestOf)
    }

    override protected def advance(): InternalRow = {
      var out: InternalRow = null
      while (out == null && sorted.hasNext) {
        val fact = sorted.next()
        out = resultOf(fact, known.versionOf(fact))
      }
      if (out == null) known.finish()
      out
    }
  }

  /** The version of a fact's key in the table, or null. */
  private def newest(fact: UnsafeRow): UnsafeRow = table.get(factKeyOf(fact), right.late)

  private def newestOf(version: UnsafeRow): UnsafeRow = table.get(keyOf(version), right.late)

  private def keep(version: UnsafeRow): Unit =
    if (isDelete(version)) {
      // Below this limit, no fact needs it any longer; the time for which it is remembered starts
      // here.
      val passed = if (version.getLong(right.field) < right.late) right.late else spec.needed
      val until = Watermark.postponed(passed, -spec.remembers)
      table.delete(keyOf(version), version, until, spec.forgetWithin)
    } else table.put(keyOf(version), version)

  /** Ends the batch: forgets expired deletions. */
  def finish(): Unit = table.forget(spec.needed)
}

private[temporal] object KeyedVersions {

  /** Deletions expire in groups, about this many over the time for which they are remembered. */
  val Parts = 8

  /** How a version compares with the version of its key in the table. */
  sealed trait Place
  case object Newest extends Place
  case object Past extends Place

  /** Same time, but earlier in the order: no fact joins it, and none ever did. */
  case object Replaced extends Place
}
