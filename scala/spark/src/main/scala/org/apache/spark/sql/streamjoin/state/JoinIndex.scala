package org.apache.spark.sql.streamjoin.state

import java.util.{PriorityQueue, UUID}

import streamjoin.core.Side

/**
 * The rows of both inputs as one version of the state has them, in memory: a cache of what is in
 * the store.
 *
 * @param memory
 *   what they hold, but for a side that another task keeps
 * @param guestMemory
 *   what such a side holds
 */
final private[streamjoin] class JoinIndex(
    buffers: Seq[Buffer],
    val memory: IndexMemory,
    guestMemory: Option[IndexMemory]
) extends CachedIndex {

  /** The commit that it equals; none while a batch is at work on it. */
  private[state] var token: UUID = _

  /** The commit that the last batch began with, finished or not; it can go back to that one. */
  private[state] var base: UUID = _

  /** A batch begins, with what there is. */
  private[state] def begin(version: Option[UUID]): Unit = {
    base = version.orNull
    token = null
    buffers.foreach(_.begin())
  }

  def buffer(side: Side): Buffer = buffers(side.index)
  def all: Seq[Buffer] = buffers

  private def memories: Seq[IndexMemory] = memory +: guestMemory.toSeq

  /** Bytes in memory. */
  def used: Long = memories.map(_.used).sum

  private[state] def endBatch(): Unit = memories.foreach(_.endBatch())

  override private[state] def close(): Unit = {
    token = null
    base = null
    memories.foreach(_.close())
  }

  /**
   * Unloads segments until the budget is met: of both sides, those first that have the least time
   * left to be probed in, that is, until they are evicted.
   *
   * @param inUse
   *   which stay in memory
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

  /** Segments in memory, in the order in which they are unloaded where it is short. */
  final class Loaded(memory: IndexMemory, store: SegmentStore) {
    private val queue = new PriorityQueue[Leaving]

    def add(buffer: Buffer, segment: Segment): Unit = queue.add(leaving(buffer, segment)): Unit

    def shrink(): Unit = while (memory.exceeded && !queue.isEmpty) {
      val first = queue.poll()
      first.buffer.unload(first.segment, store)
    }

    /** Loads a segment if there is room, or can be made by unloading those that leave before it. */
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

  /** Where no limit is known yet, all are far from theirs alike, and the older ones go first. */
  final private case class Leaving(timeLeft: Long, newest: Long, buffer: Buffer, segment: Segment)
      extends Comparable[Leaving] {
    override def compareTo(other: Leaving): Int = {
      val byTime = java.lang.Long.compare(timeLeft, other.timeLeft)
      if (byTime != 0) byTime else java.lang.Long.compare(newest, other.newest)
    }
  }
}
