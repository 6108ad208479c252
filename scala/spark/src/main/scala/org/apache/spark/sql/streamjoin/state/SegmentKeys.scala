package org.apache.spark.sql.streamjoin.state

import java.util.Arrays

/**
 * The keys of a segment in up to three forms: hashes row by row while the batch compares them, an
 * index by key while they are probed, and sorted hashes for rows that are only in the store. So
 * most probes, which find nothing, read nothing back: among a million rows, an absent hash is
 * mistaken for a present one once in four thousand times.
 */
final private[state] class SegmentKeys(segment: Segment, memory: IndexMemory) {
  private var byRow: Array[Int] = _
  private var byKey: SegmentIndex = _
  private var removedSinceIndexed = 0

  /** Sorted hashes. They stay valid: rows are never added, and removed ones do no harm. */
  private var sorted: Array[Int] = _

  /** The hashes of the keys, row by row. */
  def hashes: Array[Int] = {
    if (byRow == null) {
      byRow = new Array[Int](segment.rows)
      segment.foreachPlace((i, place) => byRow(i) = segment.hash(place))
      memory.add(4L * byRow.length)
    }
    byRow
  }

  def dropHashes(): Unit = if (byRow != null) {
    memory.add(-4L * byRow.length)
    byRow = null
  }

  def index: SegmentIndex = {
    if (byKey == null) {
      byKey = SegmentIndex.of(segment)
      removedSinceIndexed = 0
      memory.add(byKey.bytes)
    }
    byKey
  }

  private def dropIndex(): Unit = if (byKey != null) {
    memory.add(-byKey.bytes)
    byKey = null
  }

  /**
   * Notes that a row was removed. Once more than half have been removed, the index is dropped:
   * probes would scan crowded slots in vain.
   */
  def removed(): Unit = {
    removedSinceIndexed += 1
    if (byKey != null && 2 * removedSinceIndexed > byKey.refs.length) dropIndex()
  }

  /** Keeps the hashes of rows that are about to be unloaded, if there is room. */
  def keepSorted(): Unit = if (sorted == null && memory.lendsKeys(4L * segment.rows)) {
    sorted = hashes.clone()
    Arrays.sort(sorted)
  }

  /** Whether any row may have a key with this hash, decided without the rows. */
  def mayHave(hash: Int): Boolean = sorted == null || Arrays.binarySearch(sorted, hash) >= 0

  /** Called when the rows are unloaded. */
  def forget(): Unit = {
    dropIndex()
    dropHashes()
  }

  def discard(): Unit = {
    forget()
    if (sorted != null) memory.takesBackKeys(4L * sorted.length)
    sorted = null
  }
}
