package org.apache.spark.sql.streamjoin.state

import java.util.{TreeMap => JTreeMap}

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.catalyst.expressions.UnsafeRow

/**
 * Rewrites the segments of a buffer at the end of a batch, so that a bucket has few of them, and a
 * level has few small buckets. The result depends only on the segments, not on which of them are in
 * memory.
 */
final private[state] class Compaction(
    buffer: Buffer,
    buckets: JTreeMap[Long, Buffer.Bucket],
    store: SegmentStore
) {
  import Compaction._

  /**
   * Merges the new segments of a bucket with earlier ones, once there are several of which none is
   * much larger than those after it. So the number of segments of a bucket is about the number of
   * times that its size has doubled, and a row is rewritten about as often. Removed rows are
   * dropped.
   */
  def mergeAlike(bucket: Buffer.Bucket): Unit = {
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
      if (end - from >= MostAlike) replace(bucket.segments.slice(from, end + 1).toSeq)
      else if (last.live < last.rows) replace(Seq(last))
    }
  }

  /**
   * Merges the small buckets of a level into wider ones, once there are many: small batches next to
   * a stalled input, or rows spread thinly over years, would create one bucket each. They move to
   * the lowest level at which there are few of them, so a row is rewritten only a few times until
   * its bucket is no longer small.
   */
  def widenSmall(): Unit = if (buckets.size > MostSmall) {
    val highest = Buckets.highestLevel(buffer.bucketWidth)
    var level = 0
    while (level < highest && level <= Buckets.level(buckets.lastKey)) {
      val small = buckets
        .subMap(Buckets.first(level), true, Buckets.last(level), true)
        .values
        .asScala
        .filter(_.bytes < SmallBytes)
        .toSeq
      if (small.size > MostSmall) {
        val target = (level + 1 until highest)
          .find(to => small.map(bucket => Buckets.raised(bucket.number, to)).distinct.size <= FewWide)
          .getOrElse(highest)
        small
          .groupBy(bucket => Buckets.raised(bucket.number, target))
          .toSeq
          .sortBy(_._1)
          .foreach { case (wide, narrow) => merge(narrow.flatMap(_.segments), wide) }
      }
      level += 1
    }
  }

  /**
   * Merges the segments of some buckets, in order, into as few segments of a wider bucket as can
   * hold them.
   */
  private def merge(narrow: Seq[Segment], wide: Long): Unit = {
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
      replace(rest.take(count), wide)
      rest = rest.drop(count)
    }
  }

  private def replace(old: Seq[Segment]): Unit = replace(old, old.head.bucket)

  /** Merges segments into one, in a bucket that contains them all. */
  private def replace(old: Seq[Segment], number: Long): Unit = {
    old.foreach(buffer.load(_, store))
    val whole = merged(old, number)
    whole.evictedBelow = buffer.evictedBelow
    buckets.computeIfAbsent(number, new Buffer.Bucket(_)).append(whole)
    old.foreach(buffer.drop(_, store))
    if (buffer.memory.exceeded) buffer.unload(whole, store)
  }

  /** The remaining rows of several segments, with their flags, as one segment. */
  private def merged(segments: Seq[Segment], bucket: Long): Segment = {
    val bytes = SegmentFormat.RowsAt + segments.map(_.liveBytes).sum.toInt
    val into = new Segment(buffer.layout, bucket, buffer.memory, bytes)
    val row = new UnsafeRow(buffer.layout.fields)
    segments.foreach { from =>
      from.foreachLive { (_, place) =>
        from.point(row, place)
        val to = into.append(row)
        if (from.isMatched(place)) into.flag(to, Segment.Matched)
      }
    }
    into
  }

  /** Rewrites a segment without the removed rows, if they are the majority. */
  def rewriteSparse(segment: Segment): Unit = {
    buffer.load(segment, store)
    segment.settleRemoved()
    if (segment.isSparse) replace(Seq(segment))
  }
}

private[state] object Compaction {

  /** Segments of similar size that a bucket may have in a row before they are merged. */
  private val MostAlike = 3

  /**
   * The number of buckets smaller than [[SmallBytes]] that a level may have, and the number of
   * buckets into which they are merged.
   */
  private[state] val MostSmall = 256
  private val FewWide = MostSmall / 4
  private val SmallBytes = 64L << 10
}
