package org.apache.spark.sql.streamjoin.state

import java.util.{TreeMap => JTreeMap}

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import org.apache.spark.sql.catalyst.expressions.UnsafeRow

/**
 * The rows of one input that a task keeps: buckets of time, each with a few segments.
 *
 * {{{
 *   time ->   | bucket     | bucket     | bucket     | bucket     |
 *             | evicted as | segment 0  | segment 0  | segment 0  |  stored, by number
 *             | a whole    |            | segment 1  | segment 1  |
 *             |            |            | fresh      | fresh      |  from this batch
 * }}}
 *
 * A batch whose rows span more time uses wider buckets, see [[BatchLevel]].
 *
 * A bucket is dropped as a whole when its last row has expired; rows that expire earlier are
 * flagged. A buffer knows keys, times and rows, but not joins.
 *
 * @param side
 *   number of this input in the store
 * @param initialWidth
 *   width of a level-0 bucket, in microseconds
 * @param isDurable
 *   whether this task stores the rows; otherwise another task stores them, and this one has them
 *   only in memory
 * @param byLifetimes
 *   set if the first rows decide how wide buckets are
 */
final private[streamjoin] class Buffer(
    val side: Int,
    val layout: RowLayout,
    initialWidth: Long,
    val memory: IndexMemory,
    val isDurable: Boolean = true,
    byLifetimes: Option[LifetimeWidth] = None
) {
  private val buckets = new JTreeMap[Long, Buffer.Bucket]
  private val arrivals = new WriteBuffer(layout, initialWidth, memory)
  private var width = initialWidth
  private var batchLevel = new BatchLevel(Buckets.highestLevel(width))

  /** Set while the rows of a batch are the first ones. */
  private var lifetimes: Option[Lifetimes] = None
  private val freshSegments = mutable.LinkedHashSet.empty[Segment]

  /** The batch had too many rows to collect them all before building segments. */
  private var flushedEarly = false

  /** Bucket and number of removed segments that existed at the start of the batch. */
  private val droppedSinceBase = mutable.ArrayBuffer.empty[(Long, Long)]

  /** Rows with an expiry time below these have been evicted. */
  private[state] var evictedBelow: Array[Long] = Array.fill(layout.expiring.length)(Long.MinValue)

  // Start of a batch.

  /** Width of a level-0 bucket, in microseconds. */
  def bucketWidth: Long = width

  private[state] def bucketBy(newWidth: Long): Unit = if (newWidth != width) {
    width = newWidth
    arrivals.bucketBy(width)
    batchLevel = new BatchLevel(Buckets.highestLevel(width))
  }

  /** Marks all segments as belonging to the version with which the next batch starts. */
  private[state] def begin(): Unit = {
    lifetimes = byLifetimes.filter(_ => buckets.isEmpty).map { by =>
      bucketBy(by.narrowest)
      new Lifetimes(layout, by)
    }
    droppedSinceBase.clear()
    segments.foreach { segment =>
      segment.isOfBase = isDurable
      segment.hasChanged = false
    }
  }

  /**
   * Drops the segments that the last batch, finished or not, added or changed. Returns the bucket
   * and number of the segments to read instead.
   */
  private[state] def rewind(version: SegmentFormat.SideHeader): Seq[(Long, Long)] = {
    clear()
    evicted(version.evictedBelow.toArray)
    // A version without rows has no width to keep.
    bucketBy(version.bucketWidth)
    droppedSinceBase.toSeq
  }

  /** Drops what has been added or changed since the start of the batch. */
  private[state] def clear(): Unit = {
    arrivals.clear()
    segments.filter(segment => !segment.isOfBase || segment.hasChanged).toSeq.foreach(takeOut)
    endBatch()
  }

  // Contents.

  def segments: Iterator[Segment] = buckets.values.iterator.asScala.flatMap(_.segments.iterator)

  /** Segments of rows that were appended in this batch. */
  def fresh: collection.Set[Segment] = freshSegments

  def rows: Long = segments.map(_.live.toLong).sum + arrivals.count

  /** The lowest time at a position among the rows, which have to be settled. */
  def lowest(at: Int): Option[Long] = {
    assert(arrivals.isEmpty, s"${arrivals.count} rows are not in segments yet: settle() comes first")
    segments.filter(_.live > 0).map(_.lowest(at)).minOption
  }

  /** Segments that may have rows between two times of the first expiring column, inclusive. */
  def between(from: Long, to: Long): Array[Segment] =
    if (from > to || buckets.isEmpty) Array.empty
    else
      (0 to Buckets.level(buckets.lastKey)).iterator
        .flatMap { level =>
          def at(time: Long) = Buckets.raised(Buckets.of(time, width), level)
          buckets.subMap(at(from), true, at(to), true).values.iterator.asScala
        }
        .flatMap(_.segments.iterator)
        .filter(segment => segment.live > 0 && segment.lowest(0) <= to && segment.highest(0) >= from)
        .toArray

  // Adding rows.

  /** Buffers a copy of the row. It is not found before [[arrive]]. */
  private[state] def append(row: UnsafeRow, isMatched: Boolean = false): Unit = {
    if (arrivals.exceeds(Buffer.MostArrivals, row)) {
      arrive()
      flushedEarly = true
    }
    batchLevel.add(arrivals.append(row, if (isMatched) Segment.Matched else 0))
    if (lifetimes.isDefined) lifetimes.get.add(row.getBaseObject, row.getBaseOffset)
  }

  /** Puts the appended rows into segments. */
  private[state] def arrive(): Unit = if (!arrivals.isEmpty) arrivals.drain(batchLevel.level).foreach(take)

  /** Puts all rows into segments, and updates each segment's lowest times after rows have left. */
  private[state] def settle(): Unit = {
    arrive()
    segments.foreach(_.settle())
  }

  private def take(segment: Segment): Unit = {
    segment.isFresh = true
    buckets.computeIfAbsent(segment.bucket, new Buffer.Bucket(_)).append(segment)
    freshSegments += segment
  }

  // Removing rows.

  private[state] def drop(segment: Segment, store: SegmentStore): Unit = {
    store.remove(side, segment)
    takeOut(segment)
  }

  private def takeOut(segment: Segment): Unit = {
    if (segment.isOfBase) droppedSinceBase += (segment.bucket -> segment.number)
    if (segment.isFresh) freshSegments -= segment
    segment.discard()
    val bucket = buckets.get(segment.bucket)
    bucket.segments -= segment
    if (bucket.segments.isEmpty) buckets.remove(bucket.number)
  }

  /** Notes that rows below these limits have been evicted from every segment. */
  private[state] def evicted(limits: Array[Long]): Unit = {
    evictedBelow = limits
    segments.foreach(_.evictedBelow = limits)
  }

  // Memory.

  private[state] def load(segment: Segment, store: SegmentStore): Unit =
    if (!segment.isLoaded) store.read(side, segment)

  /** Spills the rows to the store. */
  private[state] def unload(segment: Segment, store: SegmentStore): Unit =
    if (segment.isLoaded && isDurable) {
      segment.settle()
      write(segment, store)
      segment.unload()
    }

  /** How far the limits must move before the whole segment is evicted. */
  private[state] def timeLeft(segment: Segment): Long = {
    var left = Long.MaxValue
    var at = 0
    while (at < evictedBelow.length) {
      left = math.min(left, Buffer.distance(evictedBelow(at), segment.highest(at)))
      at += 1
    }
    left
  }

  // End of a batch.

  private def write(segment: Segment, store: SegmentStore): Unit =
    if (!isDurable) ()
    else if (!segment.isStored) store.write(side, segment)
    else if (segment.flagsChanged) store.writeFlags(side, segment)

  /**
   * Writes all changes to the store. The segments in the store, row by row, depend only on the
   * previous version, the rows of the batch and the limits. They do not depend on the order in
   * which the rows arrived, on the available memory, or on whether the index was cached: every
   * attempt at the batch writes the same segments.
   */
  private[state] def write(store: SegmentStore, shrink: () => Unit): Unit = {
    settle()
    // First, so that none of them is merged with others: another attempt may have dropped it as a
    // whole.
    segments.filter(_.live == 0).toSeq.foreach(drop(_, store))
    val lowered = lifetimes.fold(0)(_.level)
    if (flushedEarly || lowered > 0) arriveAtOnce(store, shrink, lowered)
    val compaction = new Compaction(this, buckets, store)
    freshSegments.map(_.bucket).map(buckets.get).filter(_ != null).foreach(compaction.mergeAlike)
    compaction.widenSmall()
    segments.filter(_.isSparse).toSeq.foreach(compaction.rewriteSparse)
    segments.foreach { segment =>
      if (segment.isFresh && (segment.flagsInStore || segment.isStored && segment.flagsChanged)) {
        load(segment, store)
        if (isDurable) store.write(side, segment)
      }
      if (segment.isLoaded) {
        write(segment, store)
        segment.keys.dropHashes()
        if (memory.exceeded) unload(segment, store)
      }
      segment.isFresh = false
    }
    endBatch()
  }

  private def endBatch(): Unit = {
    freshSegments.clear()
    flushedEarly = false
    lifetimes = None
    batchLevel.clear()
  }

  /**
   * Rebuilds the segments of this batch, bucket by bucket, as if all of its remaining rows had been
   * collected first: at once, or in parts if there are too many.
   *
   * @param lowered
   *   the level of buckets that becomes level 0; above 0 only if there are no other segments
   */
  private def arriveAtOnce(store: SegmentStore, shrink: () => Unit, lowered: Int): Unit = {
    val level = math.max(batchLevel.level, lowered)
    val before = freshSegments.toSeq.groupBy { segment =>
      Buckets.lowered(Buckets.raised(segment.bucket, level), lowered)
    }
    freshSegments.clear()
    bucketBy(width << (2 * lowered))
    batchLevel.raiseTo(level - lowered)
    before.foreach { case (bucket, segments) =>
      def each(use: Segment => Unit): Unit = segments.foreach { segment =>
        load(segment, store)
        use(segment)
        if (memory.exceeded) shrink()
      }
      if (segments.map(_.liveBytes).sum <= Buffer.MostArrivals) {
        each { segment =>
          append(segment, arrivals)
          drop(segment, store)
        }
        arrive()
        if (memory.exceeded) shrink()
      } else {
        val backlog = new Backlog(side, layout, bucket, width, memory, store, isDurable)
        each(backlog.weigh)
        backlog.cut()
        each { segment =>
          backlog.scatter(segment)
          drop(segment, store)
        }
        backlog.drain().foreach { segment =>
          take(segment)
          if (memory.exceeded) shrink()
        }
      }
    }
    freshSegments.foreach(_.evictedBelow = evictedBelow)
  }

  private def append(segment: Segment, into: WriteBuffer): Unit = {
    val row = new UnsafeRow(layout.fields)
    segment.foreachLive { (_, place) =>
      segment.point(row, place)
      into.append(row, segment.flags(place)): Unit
    }
  }

  // Reading a version.

  private[state] def add(segment: Segment): Unit =
    buckets.computeIfAbsent(segment.bucket, new Buffer.Bucket(_)).add(segment)

  private[state] def newSegment(bucket: Long): Segment = {
    val segment = new Segment(layout, bucket, memory)
    segment.evictedBelow = evictedBelow
    segment
  }
}

private[streamjoin] object Buffer {

  /** The number of bytes of rows that are collected before they are put into segments. */
  private val MostArrivals = 16L << 20

  /** `to - from`, capped at what a long can hold. */
  private def distance(from: Long, to: Long): Long = {
    val distance = to - from
    if (((to ^ from) & (to ^ distance)) >= 0) distance else if (to > from) Long.MaxValue else Long.MinValue
  }

  /** The segments of one span of time. */
  final private[state] class Bucket(val number: Long) {

    /** Sorted by number, independent of the order in which they are read. */
    val segments: mutable.ArrayBuffer[Segment] = mutable.ArrayBuffer.empty[Segment]

    /** Bytes in the store. */
    def bytes: Long = segments.iterator.map(_.size.toLong).sum

    /** Adds a new segment, with the next number. */
    def append(segment: Segment): Unit = {
      segment.number = segments.lastOption.fold(0L)(_.number + 1)
      segments += segment
    }

    /** Adds a segment that has its number. */
    def add(segment: Segment): Unit = {
      val at = segments.indexWhere(_.number > segment.number)
      segments.insert(if (at < 0) segments.size else at, segment)
    }
  }
}
