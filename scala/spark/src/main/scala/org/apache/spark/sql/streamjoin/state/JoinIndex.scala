package org.apache.spark.sql.streamjoin.state

import java.util.{PriorityQueue, UUID}

import streamjoin.core.Side

/**
 * The in-memory buffers at one version of the state: a cache of the store.
 *
 * @param memory
 *   memory of all buffers, except one that another task stores
 * @param replicatedMemory
 *   memory of that one
 */
final private[streamjoin] class JoinIndex(
    buffers: Seq[Buffer],
    val memory: IndexMemory,
    replicatedMemory: Option[IndexMemory]
) extends CachedIndex {

  /** Token of the commit that the index equals; null while a batch works on it. */
  private[state] var token: UUID = _

  /**
   * Token of the commit with which the last batch, finished or not, started; the index can be reset
   * to it.
   */
  private[state] var base: UUID = _

  /** Called when a batch starts with the rows of this version. */
  private[state] def begin(version: Option[UUID]): Unit = {
    base = version.orNull
    token = null
    buffers.foreach(_.begin())
  }

  def buffer(side: Side): Buffer = buffers(side.index)
  def all: Seq[Buffer] = buffers

  private def memories: Seq[IndexMemory] = memory +: replicatedMemory.toSeq

  /** Bytes in memory. */
  def used: Long = memories.map(_.used).sum

  private[state] def endBatch(): Unit = memories.foreach(_.endBatch())

  override private[state] def close(): Unit = {
    token = null
    base = null
    memories.foreach(_.close())
  }

  /**
   * Unloads segments of all buffers until the rest fits the budget. Those that will be evicted
   * first are unloaded first, because they will be probed for the shortest time.
   *
   * @param inUse
   *   segments that stay in memory
   */
  private[state] def shrink(store: SegmentStore, inUse: Segment => Boolean = _ => false): Unit = {
    val loaded = new JoinIndex.Loaded(memory, store)
    for {
      buffer <- buffers if buffer.isDurable
      segment <- buffer.segments if segment.isLoaded && !inUse(segment)
    } loaded.add(buffer, segment)
    loaded.shrink()
  }
}

private[state] object JoinIndex {

  /** Loaded segments, in the order in which they are unloaded when memory is short. */
  final class Loaded(memory: IndexMemory, store: SegmentStore) {
    private val queue = new PriorityQueue[Leaving]

    def add(buffer: Buffer, segment: Segment): Unit = queue.add(leaving(buffer, segment)): Unit

    def shrink(): Unit = while (memory.exceeded && !queue.isEmpty) {
      val first = queue.poll()
      first.buffer.unload(first.segment, store)
    }

    /**
     * Loads a segment if it fits, or if unloading segments that will be evicted earlier makes room.
     */
    def offer(buffer: Buffer, segment: Segment, load: () => Unit): Unit = {
      val fits = memory.used + segment.size <= memory.allowance
      val staysLonger = !queue.isEmpty && queue.peek().compareTo(leaving(buffer, segment)) < 0
      if (fits || staysLonger) load()
      if (segment.isLoaded) add(buffer, segment)
      shrink()
    }

    private def leaving(buffer: Buffer, segment: Segment): Leaving =
      Leaving(buffer.timeLeft(segment), segment.highest(0), buffer, segment)
  }

  /**
   * Until a limit is known, all segments have the same remaining time, and the older ones are
   * unloaded first.
   */
  final private case class Leaving(timeLeft: Long, newest: Long, buffer: Buffer, segment: Segment)
      extends Comparable[Leaving] {
    override def compareTo(other: Leaving): Int = {
      val byTime = java.lang.Long.compare(timeLeft, other.timeLeft)
      if (byTime != 0) byTime else java.lang.Long.compare(newest, other.newest)
    }
  }
}
