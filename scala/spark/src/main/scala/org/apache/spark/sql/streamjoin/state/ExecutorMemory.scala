package org.apache.spark.sql.streamjoin.state

import java.util.concurrent.atomic.{AtomicInteger, AtomicLong}

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
