package org.apache.spark.sql.streamjoin.operators.temporal

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.streamjoin.state.VersionTable

import streamjoin.core.{AsOf, Side}

/**
 * The versions that facts may meet, key by key, those of a key in the order of their times. Facts
 * ask for them in the same order. Of each key two or three rows are in memory, and the one that it
 * had before all of them is looked up once.
 *
 * Of the rows of a key that no later fact needs, the last becomes that of the key in the table, or
 * takes it away.
 *
 * @param rows
 *   by key and time; of those of one key and time the last counts
 * @param table
 *   of the newest rows; null where the rule looks back no further than its tolerance
 */
final private[temporal] class VersionsOfKey(
    spec: TemporalSpec,
    rows: Iterator[UnsafeRow],
    isDelete: UnsafeRow => Boolean,
    table: VersionTable
) {
  private val right = spec.inputs(1)
  private val keyOrder = new KeyOrder(spec.inputs.head, right)
  private val keyOf = UnsafeProjection.create(right.keys, right.output)
  private val factKeyOf = UnsafeProjection.create(spec.inputs.head.keys, spec.inputs.head.output)

  /** A row of the key at hand, of the input with that number. */
  private var key: UnsafeRow = _
  private var keyOfInput = 0

  /** The row that is read next, of whatever key. */
  private var ahead: UnsafeRow = _
  step()

  /** Around the fact at hand. */
  private var before, head, second: UnsafeRow = _

  /** The last one read of the key that is not needed any more. */
  private var newest: UnsafeRow = _

  private def step(): Unit = ahead = if (rows.hasNext) rows.next() else null

  private def time(row: UnsafeRow): Long = row.getLong(right.field)

  /** What a fact meets, or null; it is valid until the next call. */
  def met(fact: UnsafeRow): UnsafeRow = {
    if (key == null || !keyOrder.isSame(key, keyOfInput, fact, Side.Left.index)) moveTo(fact)
    val at = fact.getLong(spec.inputs.head.field)
    while (head != null && time(head) < at) {
      before = head
      head = second
      second = read()
    }
    val exact = if (head != null && time(head) == at) head else null
    val closest =
      if (exact != null && spec.rule.allowsExact) exact
      else nearest(at, if (exact == null) head else second)
    if (closest == null || !spec.rule.allows(at, time(closest)) || isDelete(closest)) null else closest
  }

  private def nearest(at: Long, after: UnsafeRow): UnsafeRow = spec.rule.direction match {
    case AsOf.Backward => before
    case AsOf.Forward => after
    case AsOf.Nearest =>
      if (before == null || after != null && time(after) - at < at - time(before)) after else before
  }

  private def moveTo(fact: UnsafeRow): Unit = {
    leave()
    while (ahead != null && keyOrder.compare(ahead, Side.Right.index, fact, Side.Left.index) < 0) {
      begin(ahead, Side.Right.index)
      leave()
    }
    begin(fact, Side.Left.index)
    before = newestOf(fact)
    head = read()
    second = read()
  }

  private def newestOf(fact: UnsafeRow): UnsafeRow = {
    val known = if (table == null) null else table.get(factKeyOf(fact))
    if (known == null) null else known.copy()
  }

  private def begin(row: UnsafeRow, ofInput: Int): Unit = {
    key = row.copy()
    keyOfInput = ofInput
  }

  /** The last of the next rows of the key that have one time. */
  private def read(): UnsafeRow = {
    var last: UnsafeRow = null
    while (
      ahead != null && keyOrder.isSame(ahead, Side.Right.index, key, keyOfInput) &&
      (last == null || time(last) == time(ahead))
    ) {
      last = ahead.copy()
      step()
    }
    if (last != null && time(last) < spec.needed) newest = last
    last
  }

  /** The key is done with. */
  private def leave(): Unit = if (key != null) {
    while (read() != null) {}
    if (table != null && newest != null)
      if (isDelete(newest)) table.remove(keyOf(newest)) else table.put(keyOf(newest), newest)
    key = null
    newest = null
  }

  /** No fact comes any more. */
  def finish(): Unit = {
    leave()
    while (ahead != null) {
      begin(ahead, Side.Right.index)
      leave()
    }
  }
}
