package org.apache.spark.sql.streamjoin.operators.temporal

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.streamjoin.operators.Rows
import org.apache.spark.sql.streamjoin.state.JoinState

import streamjoin.core.Watermark

/**
 * Where a version is valid until the next of its key: the newest of each key, in a table, and those
 * of the batch that go there. They are merged with the facts that they are for, key by key.
 */
final private[temporal] class KeyedVersions(
    spec: TemporalSpec,
    state: JoinState,
    isDelete: UnsafeRow => Boolean
) {
  private val (left, right) = (spec.inputs.head, spec.inputs(1))
  private val table = state.versionTable(right.keys.size, right.output.size)
  private val keyOf = UnsafeProjection.create(right.keys, right.output)
  private val factKeyOf = UnsafeProjection.create(left.keys, left.output)
  private val later = SortedRows.byTime(right, spec.laterOfOneTime)

  private val facts = SortedRows.byKey(left, SortedRows.by(left, Nil))
  private val versions = SortedRows.byKey(right, spec.laterOfOneTime)

  /**
   * Where a version that comes below what is needed stands: no row to come meets it unless it is
   * the newest of its key. The table is as it was before the batch, so that the order within the
   * batch makes no difference.
   */
  def place(version: UnsafeRow): KeyedVersions.Place = {
    val known = table.get(keyOf(version), right.late)
    if (known == null || later.gt(version, known)) KeyedVersions.Newest
    else if (known.getLong(right.field) > version.getLong(right.field)) KeyedVersions.Past
    else KeyedVersions.Replaced
  }

  /** A version that goes into the table, if none of its key that is newer does. */
  def add(version: UnsafeRow): Unit = versions.add(version)

  def addFact(fact: UnsafeRow): Unit = facts.add(fact)

  /**
   * @param resultOf
   *   what a fact, with the version for it or null, comes out as; null if it does not
   */
  def merged(resultOf: (UnsafeRow, UnsafeRow) => InternalRow): Iterator[InternalRow] = new Rows {
    private lazy val sorted = facts.sorted
    private lazy val known = new VersionsOfKey(spec, versions.sorted, newest, keep)

    override protected def advance(): InternalRow = {
      var out: InternalRow = null
      while (out == null && sorted.hasNext) {
        val fact = sorted.next()
        out = resultOf(fact, known.met(fact))
      }
      if (out == null) known.finish()
      out
    }
  }

  private def newest(fact: UnsafeRow): UnsafeRow = table.get(factKeyOf(fact), right.late)

  private def keep(version: UnsafeRow): Unit =
    if (isDelete(version)) {
      // From when on rows do not need it any more.
      val passed = if (version.getLong(right.field) < right.late) right.late else spec.needed
      val until = Watermark.postponed(passed, -spec.remembers)
      table.delete(keyOf(version), version, until, spec.remembers / KeyedVersions.Parts)
    } else table.put(keyOf(version), version)

  /** The batch is done. */
  def finish(): Unit = table.forget(spec.needed)
}

private[temporal] object KeyedVersions {

  /** Deletions leave this many times while they are remembered, and not one by one. */
  private val Parts = 8

  /** A version beside that of its key in the table. */
  sealed trait Place
  case object Newest extends Place
  case object Past extends Place

  /** It has the same time, and comes before it: no fact is for it, and none was. */
  case object Replaced extends Place
}
