package org.apache.spark.sql.streamjoin.state

import org.apache.spark.sql.catalyst.expressions.UnsafeRow

/**
 * Finds the kept rows that have the keys of other rows, which are not kept. The latter pass in
 * blocks of a quarter of the memory that the index may hold. Each block reads an unloaded segment
 * at most once.
 */
final private[streamjoin] class PassingRows(
    layout: RowLayout,
    kept: Buffer,
    index: JoinIndex,
    segments: SegmentStore
) {
  private val memory = index.memory
  private val block = new Buffer(PassingRows.Number, layout, kept.bucketWidth, memory, isDurable = false)

  /** The pairs of the next rows, as many as fit. The previous block must be finished. */
  def pairs(rows: Iterator[UnsafeRow]): MatchIterator = {
    drop()
    val most = memory.used + memory.allowance / PassingRows.Part
    do block.append(rows.next())
    while (rows.hasNext && memory.used < most)
    block.arrive()
    if (memory.exceeded) index.shrink(segments)
    new MatchIterator(block, kept, ProbeTimeRange(Nil, Nil), index, segments)
  }

  /** Frees the memory of the current block. */
  def drop(): Unit = block.clear()
}

private object PassingRows {

  /** The rows are never stored, so no buffer of the state has this number. */
  private val Number = -1

  /** A block uses this part of the memory: its rows are compared with loaded segments. */
  private val Part = 4
}
