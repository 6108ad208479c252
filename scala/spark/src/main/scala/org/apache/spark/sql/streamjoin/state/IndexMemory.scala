package org.apache.spark.sql.streamjoin.state

import java.util.concurrent.atomic.{AtomicInteger, AtomicLong}

import scala.collection.mutable

/**
 * The bytes that one task's index holds in memory, and its limit: its budget or, while all indexes
 * of the executor together exceed theirs, its fair share if that is less.
 *
 * The limit is enforced between steps, not within them: a step needs the rows that have just
 * arrived, or the two segments that it compares, in memory.
 */
final private[streamjoin] class IndexMemory(
    val budget: Long,
    initial: ExecutorMemory.Limit = ExecutorMemory.unlimited
) {
  @volatile private var executor = initial
  // Volatile, and changed under the lock: a canceled task may still be running when its index is
  // closed.
  @volatile private var bytes = 0L
  private var closed = false
  executor.memory.begin()

  /** Unused pages. */
  private val pages = mutable.ArrayBuffer.empty[Array[Byte]]
  private var lent = 0
  private var mostLent = 0

  def used: Long = bytes

  def add(change: Long): Unit = synchronized {
    bytes += change
    if (!closed) executor.memory.add(change)
  }

  /** The part of [[used]] for key hashes of rows that are only in the store. */
  private var keyBytes = 0L

  def keys: Long = keyBytes

  /** Reserves bytes for such hashes, if there is room; they take up to half of the memory. */
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

  private def isOverShare: Boolean = isExecutorFull && bytes > share

  /** Whether all indexes of the executor together exceed their limit. */
  def isExecutorFull: Boolean = executor.memory.used > executor.limit

  /** The number of bytes that the index may currently hold. */
  def allowance: Long =
    if (executor.memory.used <= executor.limit) budget else math.min(budget, share)

  /** Whether this many additional bytes exceed neither the budget nor the limit of the executor. */
  def hasRoomFor(more: Long): Boolean =
    bytes + more <= budget && executor.memory.used + more <= executor.limit

  /** Changes the limit that this index sees for all indexes of the executor together. */
  def limitTo(bytes: Long): Unit = executor = executor.copy(limit = bytes)

  private def share: Long = executor.limit / math.max(1, executor.memory.indexes)

  /** Stops counting, because the index is dropped. */
  def close(): Unit = synchronized {
    if (!closed) {
      closed = true
      executor.memory.end(bytes)
    }
  }

  /** The part of [[used]] for pages that wait for rows. */
  def spare: Long = pages.size.toLong * IndexMemory.PageBytes

  /**
   * A page, or an array of the given size if that does not fit into one. The contents are
   * undefined.
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

  /**
   * Keeps the number of pages that this batch used at the same time, or none if memory is short.
   */
  def endBatch(): Unit = {
    while (pages.nonEmpty && (exceeded || pages.size > mostLent)) add(-pages.remove(pages.size - 1).length)
    mostLent = lent
  }
}

private[streamjoin] object IndexMemory {
  val PageBytes: Int = 64 << 10
}

/**
 * The bytes that the indexes of all tasks together hold in memory, also between batches. Every
 * index must be [[IndexMemory.close]]d when it is dropped, even if its task failed, or it is
 * counted forever.
 */
final private[streamjoin] class ExecutorMemory {
  private val bytes = new AtomicLong
  private val count = new AtomicInteger

  def used: Long = bytes.get
  def indexes: Int = count.get

  private[state] def begin(): Unit = count.incrementAndGet(): Unit
  private[state] def add(change: Long): Unit = bytes.addAndGet(change): Unit
  private[state] def end(held: Long): Unit = {
    bytes.addAndGet(-held)
    count.decrementAndGet(): Unit
  }
}

private[streamjoin] object ExecutorMemory {

  /** For all queries in this process. */
  val ofProcess = new ExecutorMemory

  /**
   * The share of the heap that Spark's own memory leaves: by default `1 - spark.memory.fraction`.
   */
  private val ShareOfHeap = 0.4

  /**
   * @param limit
   *   maximum number of bytes of all indexes together; each query has its own limit
   */
  final case class Limit(memory: ExecutorMemory, limit: Long)

  /** For an index without others. */
  def unlimited: Limit = Limit(new ExecutorMemory, Long.MaxValue)

  def limit(set: Option[Long]): Limit =
    Limit(ofProcess, set.getOrElse((ShareOfHeap * Runtime.getRuntime.maxMemory).toLong))
}
