package org.apache.spark.sql.streamjoin.state

import java.util.concurrent.atomic.{AtomicInteger, AtomicLong}

/**
 * The bytes that the indexes of many tasks hold in memory together, those between batches included.
 * Every index that was begun is [[IndexMemory.close]]d when it is dropped, whatever happened to its
 * task: an index that is not closed would count forever.
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

  /** Of all queries in this process. */
  val ofProcess = new ExecutorMemory

  /** What Spark's own memory leaves of the heap by default: `1 - spark.memory.fraction`. */
  private val ShareOfHeap = 0.4

  /**
   * @param limit
   *   in bytes, that all indexes together should not pass; each query has its own limit
   */
  final case class Limit(memory: ExecutorMemory, limit: Long)

  /** An index by itself. */
  def unlimited: Limit = Limit(new ExecutorMemory, Long.MaxValue)

  def limit(set: Option[Long]): Limit =
    Limit(ofProcess, set.getOrElse((ShareOfHeap * Runtime.getRuntime.maxMemory).toLong))
}
