package org.apache.spark.sql.streamjoin.joins.temporal

import org.apache.spark.sql.catalyst.expressions._

import streamjoin.core.Side

/**
 * Merges facts with the versions that leave the buffer; both are sorted by key, then by time. It
 * holds two versions of a key in memory, and looks up the version before them once.
 *
 * The last version of a key becomes its newest version in the table.
 *
 * @param rows
 *   versions by key and time; among those with the same key and time, the last one wins
 * @param newest
 *   looks up the version before these for the key of a fact, or null
 * @param keep
 *   receives the last version of each key
 * @param values
 *   fills in values that were not sent from the previous version
 * @param newestOf
 *   looks up the version before these for the key of a version, or null
 */
final private[temporal] class VersionCursor(
    spec: TemporalTaskSpec,
    rows: Iterator[UnsafeRow],
    newest: UnsafeRow => UnsafeRow,
    keep: UnsafeRow => Unit,
    values: Option[VersionValues] = None,
    newestOf: UnsafeRow => UnsafeRow = _ => null
) {
  private val right = spec.inputs(1)
  private val keyOrder = new KeyOrder(spec.inputs.head, right)

  /** A row with the current key, and the index of its input. */
  private var key: UnsafeRow = _
  private var keyOfInput = 0

  /** The next row to read, of any key. */
  private var ahead: UnsafeRow = _
  step()

  /** The versions before and after the current fact. */
  private var before, head: UnsafeRow = _

  /** The last version read of the current key. */
  private var last: UnsafeRow = _

  private def step(): Unit = ahead = if (rows.hasNext) rows.next() else null

  private def time(row: UnsafeRow): Long = row.getLong(right.field)

  /** The version that is valid for a fact, or null. The row is valid until the next call. */
  def versionOf(fact: UnsafeRow): UnsafeRow = {
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
    foundBefore = true
    latest = before
    head = read()
  }

  private def begin(row: UnsafeRow, ofInput: Int): Unit = {
    key = row.copy()
    keyOfInput = ofInput
    foundBefore = false
    latest = null
    replaced = null
  }

  /** Reads the next versions of the key that share one time, and returns the last of them. */
  private def read(): UnsafeRow = {
    var found: UnsafeRow = null
    while (
      ahead != null && keyOrder.isSame(ahead, Side.Right.index, key, keyOfInput) &&
      (found == null || time(found) == time(ahead))
    ) {
      found = complete(ahead.copy())
      step()
    }
    if (found != null) last = found
    found
  }

  /** The last version that was read for the current key, or the one before it, if it is known. */
  private var latest: UnsafeRow = _
  private var foundBefore = false

  /** The row before an update, until the next version has been read. */
  private var replaced: UnsafeRow = _

  private def complete(version: UnsafeRow): UnsafeRow = values.fold(version) { known =>
    if (known.isBeforeUpdate(version)) {
      replaced = version
      version
    } else {
      if (replaced != null && time(replaced) < time(version)) {
        // It has ended the key.
        foundBefore = true
        latest = null
      }
      replaced = null
      if (known.asksBefore(version) && !foundBefore) {
        val found = newestOf(version)
        latest = if (found == null) null else found.copy()
      }
      foundBefore = true
      latest = known.filled(version, latest)
      latest
    }
  }

  /** Finishes the current key. */
  private def leave(): Unit = if (key != null) {
    while (read() != null) {}
    if (last != null) keep(last)
    key = null
    last = null
  }

  /** Finishes the remaining keys, after the last fact. */
  def finish(): Unit = {
    leave()
    while (ahead != null) {
      begin(ahead, Side.Right.index)
      leave()
    }
  }
}
