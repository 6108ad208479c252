package org.apache.spark.sql.streamjoin.observe.collect

import java.io.{Externalizable, ObjectInput, ObjectOutput}

/**
 * Counts time spans in buckets whose width is a quarter of a power of two: a span is known to
 * within a quarter of its size, in milliseconds. Each task sends its histogram to the driver, so
 * empty buckets are not written.
 */
final private[streamjoin] class TimeHistogram extends Externalizable {
  import TimeHistogram._

  /** The counts by size, with negative spans separate. */
  private var positive = Array.emptyLongArray
  private var negative = Array.emptyLongArray

  /** @param micros a span in microseconds */
  def add(micros: Long, weight: Long): Unit = {
    val millis = Math.floorDiv(micros, 1000L)
    if (millis >= 0) {
      val at = bucket(millis)
      positive = fitting(positive, at)
      positive(at) += weight
    } else {
      val at = bucket(if (millis == Long.MinValue) Long.MaxValue else -millis)
      negative = fitting(negative, at)
      negative(at) += weight
    }
  }

  def add(other: TimeHistogram): Unit = {
    positive = sum(positive, other.positive)
    negative = sum(negative, other.negative)
  }

  override def writeExternal(out: ObjectOutput): Unit = Seq(positive, negative).foreach { counts =>
    out.writeInt(counts.length)
    out.writeInt(counts.count(_ > 0))
    counts.indices.filter(counts(_) > 0).foreach { at =>
      out.writeInt(at)
      out.writeLong(counts(at))
    }
  }

  override def readExternal(in: ObjectInput): Unit = {
    def read(): Array[Long] = {
      val counts = new Array[Long](in.readInt())
      (0 until in.readInt()).foreach(_ => counts(in.readInt()) = in.readLong())
      counts
    }
    positive = read()
    negative = read()
  }

  /** The histogram with negative spans replaced by zero. */
  def fromZero: TimeHistogram = {
    val all = new TimeHistogram
    all.add(this)
    if (negative.nonEmpty) all.add(0, negative.sum)
    all.negative = Array.emptyLongArray
    all
  }

  def total: Long = positive.sum + negative.sum

  /** The non-empty buckets, the lowest first. */
  def buckets: Seq[Bucket] = {
    val below = negative.indices.reverse.map { at =>
      Bucket(-lowest(at + 1) + 1, -lowest(at) + 1, negative(at))
    }
    val above = positive.indices.map(at => Bucket(lowest(at), lowest(at + 1), positive(at)))
    (below ++ above).filter(_.count > 0)
  }

  /**
   * The upper end of the bucket that contains the given quantile of the spans, in milliseconds;
   * none without spans.
   */
  def quantile(share: Double): Option[Long] = {
    val needed = share * total
    val ends = buckets.scanLeft((0L, 0L)) { case ((_, sum), bucket) => (bucket.to, sum + bucket.count) }.tail
    ends.collectFirst { case (end, sum) if sum >= needed => end }
  }
}

private[streamjoin] object TimeHistogram {

  /**
   * @param from
   *   in milliseconds
   * @param to
   *   exclusive, in milliseconds
   */
  final case class Bucket(from: Long, to: Long, count: Long)

  /** Each size below 4 has its own bucket. */
  private def bucket(size: Long): Int =
    if (size < 4) size.toInt
    else {
      val octave = 63 - java.lang.Long.numberOfLeadingZeros(size)
      4 * (octave - 1) + ((size >>> (octave - 2)) & 3).toInt
    }

  /** The lowest size in a bucket. */
  private def lowest(bucket: Int): Long =
    if (bucket < 4) bucket.toLong
    else {
      val shift = bucket / 4 - 1
      if (shift > 60) Long.MaxValue else (4L + bucket % 4) << shift
    }

  private def fitting(counts: Array[Long], at: Int): Array[Long] =
    if (at < counts.length) counts else java.util.Arrays.copyOf(counts, at + 1)

  private def sum(some: Array[Long], others: Array[Long]): Array[Long] = {
    val all = java.util.Arrays.copyOf(some, math.max(some.length, others.length))
    others.indices.foreach(at => all(at) += others(at))
    all
  }
}
