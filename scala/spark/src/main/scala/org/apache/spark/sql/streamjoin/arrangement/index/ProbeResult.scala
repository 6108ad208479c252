package org.apache.spark.sql.streamjoin.arrangement.index

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.streamjoin.arrangement.storage.RowKey

/**
 * The rows that a probe has found. They stay valid until the next probe, even if the index changes.
 *
 * @param wanted
 *   position of the key in the probing rows
 */
final private[streamjoin] class ProbeResult(fields: Int, private[arrangement] val wanted: RowKey) {
  private var rows = new Array[UnsafeRow](8)
  private var counts = new Array[Int](8)
  private var found = 0

  /** To inspect rows that may not match. */
  private[arrangement] val row = new UnsafeRow(fields)

  def size: Int = found

  def clear(): Unit = found = 0

  private[arrangement] def add(row: UnsafeRow, copies: Int): Unit = {
    if (found == rows.length) {
      rows = java.util.Arrays.copyOf(rows, 2 * found)
      counts = java.util.Arrays.copyOf(counts, 2 * found)
    }
    if (rows(found) == null) rows(found) = new UnsafeRow(fields)
    // The bytes belong to a block, which does not change.
    rows(found).pointTo(row.getBaseObject, row.getBaseOffset, row.getSizeInBytes)
    counts(found) = copies
    found += 1
  }

  /** Removes the rows that satisfy a predicate. */
  private[arrangement] def leaveOut(isOut: UnsafeRow => Boolean): Unit = {
    var kept = 0
    var i = 0
    while (i < found) {
      if (!isOut(rows(i))) {
        val row = rows(kept)
        rows(kept) = rows(i)
        rows(i) = row
        counts(kept) = counts(i)
        kept += 1
      }
      i += 1
    }
    found = kept
  }

  def row(i: Int): UnsafeRow = rows(i)
  def copies(i: Int): Int = counts(i)
}
