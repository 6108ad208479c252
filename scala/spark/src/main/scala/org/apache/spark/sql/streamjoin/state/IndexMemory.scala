package org.apache.spark.sql.streamjoin.state

import scala.collection.mutable

/**
 * The bytes that the index of one task holds in memory, and the most that it should hold: by
 * itself, and where all indexes of the executor together hold more than they should, its fair
 * share.
 *
 * The budget is kept between steps, not within them: a step needs the rows that have just come, or
 * the two segments that it compares, in memory.
 */
final private[streamjoin] class IndexMemory(
    val budget: Long,
    initial: ExecutorMemory.Limit = ExecutorMemory.unlimited
) {
  @volatile private var executor = initial
  // Volatile, and changed under the lock: a task that is cancelled may still be at work when its
  // index is closed.
  @volatile private var bytes = 0L
  private var closed = false
  executor.memory.begin()

  /** Pages that are not in use. */
  private val pages = mutable.ArrayBuffer.empty[Array[Byte]]
  private var lent = 0
  private var mostLent = 0

  def used: Long = bytes

  def add(change: Long): Unit = synchronized {
    bytes += change
    if (!closed) executor.memory.add(change)
  }

  /** Of it, the hashes of keys whose rows are in the store only. */
  private var keyBytes = 0L

  def keys: Long = keyBytes

  /** Whether there is room for so many more of these, which take up to half of the memory. */
  def lendsKeys(more: Long): Boolean = {
    val fits = keyBytes + more <= allowance / 2
    if (fits) {
      keyBytes += more
      add(more)
    }
    fits
  }

  def takesBackKeys(less: Long): Unit = {
    keyBytes -= less
    add(-less)
  }

  def exceeded: Boolean = bytes > budget || isOverShare

  private def isOverShare: Boolean =
    executor.memory.used > executor.limit && bytes > share

  /** What the index may hold as things are. */
  def allowance: Long =
    if (executor.memory.used <= executor.limit) budget else math.min(budget, share)

  /** From here on another limit holds for all indexes of the executor together. */
  def limitTo(bytes: Long): Unit = executor = executor.copy(limit = bytes)

  private def share: Long = executor.limit / math.max(1, executor.memory.indexes)

  /** The index is dropped, and counts no more. */
  def close(): Unit = synchronized {
    if (!closed) {
      closed = true
      executor.memory.end(bytes)
    }
  }

  /** Of it, what waits for rows to come. */
  def spare: Long = pages.size.toLong * IndexMemory.PageBytes

  /**
   * A page, or for what does not fit into one, an array of that size. What is in it is undefined.
   */
  def borrow(atLeast: Int): Array[Byte] = {
    lent += 1
    mostLent = math.max(mostLent, lent)
    if (atLeast <= IndexMemory.PageBytes && pages.nonEmpty) pages.remove(pages.size - 1)
    else {
      val page = new Array[Byte](math.max(atLeast, IndexMemory.PageBytes))
      add(page.length)
      page
    }
  }

  def giveBack(page: Array[Byte]): Unit = {
    lent -= 1
    if (page.length == IndexMemory.PageBytes && !exceeded) pages += page else add(-page.length)
  }

  /** Keeps as many pages as this batch needed at once, or none where memory is scarce. */
  def endBatch(): Unit = {
    while (pages.nonEmpty && (exceeded || pages.size > mostLent)) add(-pages.remove(pages.size - 1).length)
    mostLent = lent
  }
}

private[streamjoin] object IndexMemory {
  val PageBytes: Int = 64 << 10
}
