package org.apache.spark.sql.streamjoin.state

import java.util.Arrays

/**
 * What is known of the keys of a segment's rows: row by row while the batch compares them, by key
 * while they are probed, and where the rows have been left to the store, which hashes there are. So
 * a probe in vain, which most are, reads nothing back: among a million rows a hash that none has is
 * taken for one of theirs once in four thousand times.
 */
final private[state] class SegmentKeys(segment: Segment, memory: IndexMemory) {
  private var byRow: Array[Int] = _
  private var byKey: SegmentIndex = _
  private var removedSinceIndexed = 0

  /** Rows are never added, so once there it stays right: those that have left do no harm. */
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

  /** A row was removed. A crowded slot of the index would be walked through for nothing. */
  def removed(): Unit = {
    removedSinceIndexed += 1
    if (byKey != null && 2 * removedSinceIndexed > byKey.refs.length) dropIndex()
  }

  /** Keeps the hashes of rows that are about to be forgotten, if there is room for them. */
  def keepSorted(): Unit = if (sorted == null && memory.lendsKeys(4L * segment.rows)) {
    sorted = hashes.clone()
    Arrays.sort(sorted)
  }

  /** There may be rows of keys with this hash, as far as is known without the rows. */
  def mayHave(hash: Int): Boolean = sorted == null || Arrays.binarySearch(sorted, hash) >= 0

  /** The rows are forgotten. */
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
