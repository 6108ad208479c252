package org.apache.spark.sql.streamjoin.operators.temporal

import org.apache.spark.sql.catalyst.expressions._

import streamjoin.core.Side

/**
 * The versions that leave the rows that are kept by time, key by key, those of a key in the order
 * of their times; facts ask for them in the same order. Of each key two rows are in memory, and the
 * one that it had before all of them is looked up once.
 *
 * Of the versions of a key the last becomes the one by which the key is known.
 *
 * @param rows
 *   by key and time; of those of one key and time the last counts
 * @param newest
 *   the version that a key has before these, from a fact; or null
 * @param keep
 *   the last version of a key
 */
final private[temporal] class VersionsOfKey(
    spec: TemporalSpec,
    rows: Iterator[UnsafeRow],
    newest: UnsafeRow => UnsafeRow,
    keep: UnsafeRow => Unit
) {
  private val right = spec.inputs(1)
  private val keyOrder = new KeyOrder(spec.inputs.head, right)

  /** A row of the key at hand, of the input with that number. */
  private var key: UnsafeRow = _
  private var keyOfInput = 0

  /** The row that is read next, of whatever key. */
  private var ahead: UnsafeRow = _
  step()

  /** Around the fact at hand. */
  private var before, head: UnsafeRow = _

  /** The last one read of the key. */
  private var last: UnsafeRow = _

  private def step(): Unit = ahead = if (rows.hasNext) rows.next() else null

  private def time(row: UnsafeRow): Long = row.getLong(right.field)

  /** The version that is valid for a fact, or null; it is valid until the next call. */
  def met(fact: UnsafeRow): UnsafeRow = {
    if (key == null || !keyOrder.isSame(key, keyOfInput, fact, Side.Left.index)) moveTo(fact)
    val at = fact.getLong(spec.inputs.head.field)
    while (head != null && spec.rule.allows(at, time(head))) {
      before = head
      head = read()
    }
    before
  }

  private def moveTo(fact: UnsafeRow): Unit = {
    leave()
    while (ahead != null && keyOrder.compare(ahead, Side.Right.index, fact, Side.Left.index) < 0) {
      begin(ahead, Side.Right.index)
      leave()
    }
    begin(fact, Side.Left.index)
    val known = newest(fact)
    before = if (known == null) null else known.copy()
    head = read()
  }

  private def begin(row: UnsafeRow, ofInput: Int): Unit = {
    key = row.copy()
    keyOfInput = ofInput
  }

  /** The last of the next rows of the key that have one time. */
  private def read(): UnsafeRow = {
    var found: UnsafeRow = null
    while (
      ahead != null && keyOrder.isSame(ahead, Side.Right.index, key, keyOfInput) &&
      (found == null || time(found) == time(ahead))
    ) {
      found = ahead.copy()
      step()
    }
    if (found != null) last = found
    found
  }

  /** The key is done with. */
  private def leave(): Unit = if (key != null) {
    while (read() != null) {}
    if (last != null) keep(last)
    key = null
    last = null
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
