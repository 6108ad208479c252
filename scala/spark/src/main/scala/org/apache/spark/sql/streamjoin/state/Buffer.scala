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
 *             | segment    | segment    | segment    | segment    |  stored, by number
 *               evicted    |            | segment    | segment    |
 *               whole      |            | fresh      | fresh      |  of the batch, once put in
 * }}}
 *
 * A batch whose rows are spread over more time has wider buckets, see [[BatchLevel]].
 *
 * A bucket is left as a whole when its last row has expired; rows that expire before the last of
 * their bucket are flagged. It knows keys, times and rows, not joins.
 *
 * @param side
 *   the number of this input in the store
 * @param bucketWidth
 *   the span of a bucket of level 0, in microseconds
 * @param isDurable
 *   its rows go to the store; otherwise they are in another task's, and here in memory only
 */
final private[streamjoin] class Buffer(
    val side: Int,
    val layout: RowLayout,
    val bucketWidth: Long,
    val memory: IndexMemory,
    val isDurable: Boolean = true
) {
  private val buckets = new JTreeMap[Long, Buffer.Bucket]
  private val arrivals = new Arrivals(layout, bucketWidth, memory)
  private val batchLevel = new BatchLevel(Buckets.highestLevel(bucketWidth))
  private val freshSegments = mutable.LinkedHashSet.empty[Segment]

  /** There were too many rows in this batch to wait for one another. */
  private var inSeveralGoes = false

  /** Segments of the version that the batch began with that have left, by bucket and number. */
  private val goneSinceBase = mutable.ArrayBuffer.empty[(Long, Long)]

  /** Rows with an expiry time below these have left. */
  private[state] var evictedBelow: Array[Long] = Array.fill(layout.expiring.length)(Long.MinValue)

  // A batch begins.

  /** The rows are those of the version that the next batch begins with. */
  private[state] def begin(): Unit = {
    goneSinceBase.clear()
    segments.foreach { segment =>
      segment.isOfBase = isDurable
      segment.hasChanged = false
    }
  }

  /**
   * Drops what the version does not have that the last batch began with, finished or not. Returns
   * what it has in place of that, by bucket and number: it has to be read.
   */
  private[state] def rewind(below: Array[Long]): Seq[(Long, Long)] = {
    arrivals.clear()
    segments.filter(segment => !segment.isOfBase || segment.hasChanged).toSeq.foreach(takeOut)
    endBatch()
    evicted(below)
    goneSinceBase.toSeq
  }

  // What is there.

  def segments: Iterator[Segment] = buckets.values.iterator.asScala.flatMap(_.segments.iterator)

  /** The segments of the rows that were appended in this batch. */
  def fresh: collection.Set[Segment] = freshSegments

  def rows: Long = segments.map(_.live.toLong).sum + arrivals.count

  /** The lowest time at a position among the rows, once they are settled. */
  def lowest(at: Int): Option[Long] = {
    assert(arrivals.isEmpty, s"${arrivals.count} rows are not in segments yet: settle() comes first")
    segments.filter(_.live > 0).map(_.lowest(at)).minOption
  }

  /** Segments that may have rows between two times of the first expiring column, both included. */
  def between(from: Long, to: Long): Array[Segment] =
    if (from > to || buckets.isEmpty) Array.empty
    else
      (0 to Buckets.level(buckets.lastKey)).iterator
        .flatMap { level =>
          def at(time: Long) = Buckets.raised(Buckets.of(time, bucketWidth), level)
          buckets.subMap(at(from), true, at(to), true).values.iterator.asScala
        }
        .flatMap(_.segments.iterator)
        .filter(segment => segment.live > 0 && segment.lowest(0) <= to && segment.highest(0) >= from)
        .toArray

  // Rows come.

  /** Keeps a copy of the row. It is not found before [[arrive]]. */
  private[state] def append(row: UnsafeRow): Unit = {
    if (arrivals.exceeds(Buffer.MostArrivals, row)) {
      arrive()
      inSeveralGoes = true
    }
    batchLevel.add(arrivals.append(row))
  }

  /** The rows that were appended are put into segments. */
  private[state] def arrive(): Unit = if (!arrivals.isEmpty) arrivals.drain(batchLevel.level).foreach(take)

  /** All rows are in segments, and each segment knows the times of the rows that have not left. */
  private[state] def settle(): Unit = {
    arrive()
    segments.foreach(_.settle())
  }

  private def take(segment: Segment): Unit = {
    segment.isFresh = true
    buckets.computeIfAbsent(segment.bucket, new Buffer.Bucket(_)).append(segment)
    freshSegments += segment
  }

  // Rows leave.

  private[state] def drop(segment: Segment, store: SegmentStore): Unit = {
    store.remove(side, segment)
    takeOut(segment)
  }

  private def takeOut(segment: Segment): Unit = {
    if (segment.isOfBase) goneSinceBase += (segment.bucket -> segment.number)
    if (segment.isFresh) freshSegments -= segment
    segment.discard()
    val bucket = buckets.get(segment.bucket)
    bucket.segments -= segment
    if (bucket.segments.isEmpty) buckets.remove(bucket.number)
  }

  /** Rows below these limits have been evicted from every segment. */
  private[state] def evicted(limits: Array[Long]): Unit = {
    evictedBelow = limits
    segments.foreach(_.evictedBelow = limits)
  }

  // Memory.

  private[state] def load(segment: Segment, store: SegmentStore): Unit =
    if (!segment.isLoaded) store.read(side, segment)

  /** Leaves the rows to the store. */
  private[state] def unload(segment: Segment, store: SegmentStore): Unit =
    if (segment.isLoaded && isDurable) {
      segment.settle()
      write(segment, store)
      segment.unload()
    }

  /** How far the limits have to move until the whole of a segment is evicted. */
  private[state] def timeLeft(segment: Segment): Long = {
    var left = Long.MaxValue
    var at = 0
    while (at < evictedBelow.length) {
      left = math.min(left, Buffer.distance(evictedBelow(at), segment.highest(at)))
      at += 1
    }
    left
  }

  // A batch ends.

  private def write(segment: Segment, store: SegmentStore): Unit =
    if (!isDurable) ()
    else if (!segment.isStored) store.write(side, segment)
    else if (segment.flagsChanged) store.writeFlags(side, segment)

  /**
   * Everything that has changed goes to the store. What is read from it then, segment by segment
   * and row by row, follows from the version before, the rows of the batch and the limits: not from
   * the order in which the rows came, from the memory there was, or from whether the index was at
   * hand. Another attempt at the batch has written the same.
   */
  private[state] def write(store: SegmentStore, shrink: () => Unit): Unit = {
    settle()
    // Before any of them counts as a neighbour: where another attempt dropped it whole, it is no
    // longer there.
    segments.filter(_.live == 0).toSeq.foreach(drop(_, store))
    if (inSeveralGoes) arriveAtOnce(store, shrink)
    freshSegments.map(_.bucket).map(buckets.get).filter(_ != null).foreach(tidy(_, store))
    if (buckets.size > Buffer.MostSmall) widen(store)
    segments.filter(_.isSparse).toSeq.foreach { segment =>
      load(segment, store)
      segment.settleRemoved()
      if (segment.isSparse) replace(Seq(segment), store)
    }
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
    inSeveralGoes = false
    batchLevel.clear()
  }

  /**
   * The rows of the batch that are still there into segments as if they had waited for one another,
   * bucket by bucket: at once, or where they are too many in parts.
   */
  private def arriveAtOnce(store: SegmentStore, shrink: () => Unit): Unit = {
    val before = freshSegments.toSeq.groupBy(segment => Buckets.raised(segment.bucket, batchLevel.level))
    freshSegments.clear()
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
        val backlog = new Backlog(side, layout, bucket, bucketWidth, memory, store, isDurable)
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

  private def append(segment: Segment, into: Arrivals): Unit = {
    val row = new UnsafeRow(layout.fields)
    segment.foreachLive { (_, place) =>
      segment.point(row, place)
      into.append(row, segment.flags(place)): Unit
    }
  }

  /**
   * Merges what is new in a bucket with the segments before it, once there are a few of which none
   * is much larger than what came after it. So a bucket has few more segments than its size
   * doubled, and a row is written about as often. Rows that have left are left out.
   */
  private def tidy(bucket: Buffer.Bucket, store: SegmentStore): Unit = {
    val end = bucket.segments.lastIndexWhere(segment => segment.isFresh && segment.live > 0)
    if (end >= 0) {
      val last = bucket.segments(end)
      var from = end
      var size = last.size
      def joins(before: Segment): Boolean =
        before.size <= 2L * size && before.size.toLong + size <= Segment.MaxBytes
      while (from > 0 && joins(bucket.segments(from - 1))) {
        from -= 1
        size += bucket.segments(from).size
      }
      if (end - from >= Buffer.MostAlike) replace(bucket.segments.slice(from, end + 1).toSeq, store)
      else if (last.live < last.rows) replace(Seq(last), store)
    }
  }

  /**
   * Merges the small buckets of a level into wider ones, once there are many: small batches beside
   * an input that stands still, or rows that are spread thinly over years, would leave a bucket
   * each. They go to the lowest level at which they are few, so a row is written a few times until
   * its bucket is no longer small.
   */
  private def widen(store: SegmentStore): Unit = {
    val highest = Buckets.highestLevel(bucketWidth)
    var level = 0
    while (level < highest && level <= Buckets.level(buckets.lastKey)) {
      val small = buckets
        .subMap(Buckets.first(level), true, Buckets.last(level), true)
        .values
        .asScala
        .filter(_.bytes < Buffer.SmallBytes)
        .toSeq
      if (small.size > Buffer.MostSmall) {
        val target = (level + 1 until highest)
          .find(to => small.map(bucket => Buckets.raised(bucket.number, to)).distinct.size <= Buffer.FewWide)
          .getOrElse(highest)
        small
          .groupBy(bucket => Buckets.raised(bucket.number, target))
          .toSeq
          .sortBy(_._1)
          .foreach { case (wide, narrow) => merge(narrow.flatMap(_.segments), wide, store) }
      }
      level += 1
    }
  }

  /** The segments of some buckets, in their order, into as few of a wider one as have room. */
  private def merge(narrow: Seq[Segment], wide: Long, store: SegmentStore): Unit = {
    var rest = narrow
    while (rest.nonEmpty) {
      val sizes = rest.map(_.size.toLong).scanLeft(0L)(_ + _).tail
      val count = math.max(
        1,
        sizes.indexWhere(_ > Segment.MaxBytes) match {
          case -1 => sizes.size
          case over => over
        }
      )
      replace(rest.take(count), store, wide)
      rest = rest.drop(count)
    }
  }

  private def replace(old: Seq[Segment], store: SegmentStore): Unit = replace(old, store, old.head.bucket)

  /** Puts the rows of some segments into one, in a bucket that they all lie in. */
  private def replace(old: Seq[Segment], store: SegmentStore, number: Long): Unit = {
    old.foreach(load(_, store))
    val whole = merged(old, number)
    whole.evictedBelow = evictedBelow
    buckets.computeIfAbsent(number, new Buffer.Bucket(_)).append(whole)
    old.foreach(drop(_, store))
    if (memory.exceeded) unload(whole, store)
  }

  /** The rows of several segments that are still there, with their flags, as one segment. */
  private def merged(segments: Seq[Segment], bucket: Long): Segment = {
    val bytes = SegmentFormat.RowsAt + segments.map(_.liveBytes).sum.toInt
    val into = new Segment(layout, bucket, memory, bytes)
    val row = new UnsafeRow(layout.fields)
    segments.foreach { from =>
      from.foreachLive { (_, place) =>
        from.point(row, place)
        val to = into.append(row)
        if (from.isMatched(place)) into.flag(to, Segment.Matched)
      }
    }
    into
  }

  // A version is read.

  private[state] def add(segment: Segment): Unit =
    buckets.computeIfAbsent(segment.bucket, new Buffer.Bucket(_)).add(segment)

  private[state] def newSegment(bucket: Long): Segment = {
    val segment = new Segment(layout, bucket, memory)
    segment.evictedBelow = evictedBelow
    segment
  }

}

private[streamjoin] object Buffer {

  /** Segments of a bucket that may follow one another before they are merged. */
  private val MostAlike = 3

  /**
   * Buckets of a level that are smaller than [[SmallBytes]], and how many are made of them.
   */
  private[state] val MostSmall = 256
  private val FewWide = MostSmall / 4
  private val SmallBytes = 64L << 10

  /** Bytes of rows that may come before they are put into segments. */
  private val MostArrivals = 16L << 20

  /** From one time to a later one, as far as a long can say. */
  private def distance(from: Long, to: Long): Long = {
    val distance = to - from
    if (((to ^ from) & (to ^ distance)) >= 0) distance else if (to > from) Long.MaxValue else Long.MinValue
  }

  final private class Bucket(val number: Long) {

    /** In the order of their numbers, whatever the order they are read in. */
    val segments: mutable.ArrayBuffer[Segment] = mutable.ArrayBuffer.empty[Segment]

    /** In the store. */
    def bytes: Long = segments.iterator.map(_.size.toLong).sum

    /** A new one: its number follows from those that are there. */
    def append(segment: Segment): Unit = {
      segment.number = segments.lastOption.fold(0L)(_.number + 1)
      segments += segment
    }

    /** One that has its number. */
    def add(segment: Segment): Unit = {
      val at = segments.indexWhere(_.number > segment.number)
      segments.insert(if (at < 0) segments.size else at, segment)
    }
  }
}
