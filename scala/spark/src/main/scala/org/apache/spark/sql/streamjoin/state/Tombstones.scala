package org.apache.spark.sql.streamjoin.state

import java.nio.ByteBuffer

import scala.collection.mutable

/**
 * Tracks how long the deletions of a [[VersionTable]] are remembered, so that expired ones are
 * found without scanning all keys.
 *
 * The hashes of deleted keys are kept in chunks, each with the first and the last time at which one
 * of them is due; a chunk is dropped as a whole. A key may have been added or deleted again since
 * then: the entry in the table decides.
 */
final private[state] class Tombstones(segments: SegmentStore) {
  import Tombstones._

  private var chunks: Seq[Chunk] = segments.readDeletions(Directory).fold(Seq.empty[Chunk])(directory)
  private val added = mutable.ArrayBuffer.empty[Long]
  private var (from, until) = (Long.MaxValue, Long.MinValue)
  private var span = 0L
  private var changed = false

  /**
   * @param hash
   *   hash of a deleted key
   * @param until
   *   time until which the deletion is remembered
   * @param span
   *   how much longer it may stay in the store
   */
  def add(hash: Long, until: Long, span: Long): Unit = {
    added += hash
    from = math.min(from, until)
    this.until = math.max(this.until, until)
    this.span = span
  }

  /** Drops the chunks that are due at a time; passes on the hashes of their keys. */
  def take(time: Long)(show: Long => Unit): Unit = {
    val (due, rest) = chunks.partition(_.until < time)
    due.foreach { chunk =>
      read(chunk).foreach(show)
      segments.removeDeletions(chunk.number)
    }
    changed ||= due.nonEmpty
    chunks = rest
  }

  /** Call it before the store is committed. */
  def write(): Unit = {
    if (added.nonEmpty) append()
    if (changed)
      if (chunks.isEmpty) segments.removeDeletions(Directory)
      else
        segments.writeDeletions(Directory, bytes(chunks.flatMap(c => Seq(c.number, c.from, c.until, c.size))))
  }

  private def append(): Unit = {
    val joined = chunks.lastOption.filter { chunk =>
      chunk.size + added.size <= MostHashes && math.max(until, chunk.until) - math.min(
        from,
        chunk.from
      ) <= span
    }
    val first = chunks.lastOption.fold(Directory)(_.number) + (if (joined.isEmpty) 1 else 0)
    val (begins, ends) = ((from +: joined.map(_.from).toSeq).min, (until +: joined.map(_.until).toSeq).max)
    val all = (joined.fold(Seq.empty[Long])(read) ++ added).sorted
    val made = all.grouped(LargestChunk).zipWithIndex.map { case (hashes, at) =>
      segments.writeDeletions(first + at, bytes(hashes))
      Chunk(first + at, begins, ends, hashes.size.toLong)
    }
    chunks = chunks.filterNot(joined.contains) ++ made
    changed = true
  }

  private def read(chunk: Chunk): Seq[Long] = {
    def missing = segments.fail(s"no deletions ${chunk.number}")
    longs(segments.readDeletions(chunk.number).getOrElse(missing))
  }
}

private object Tombstones {

  /** Number of the value that lists the chunks; the chunks have higher numbers. */
  private val Directory = 0L
  private val MostHashes = 8192

  /** The size of the chunks that a batch adds: a store reads and writes a value as a whole. */
  private val LargestChunk = 65536

  final private case class Chunk(number: Long, from: Long, until: Long, size: Long)

  private def directory(content: Array[Byte]): Seq[Chunk] =
    longs(content).grouped(4).map(of => Chunk(of.head, of(1), of(2), of(3))).toSeq

  private def bytes(numbers: Seq[Long]): Array[Byte] = {
    val content = ByteBuffer.allocate(8 * numbers.size)
    numbers.foreach(content.putLong)
    content.array
  }

  private def longs(content: Array[Byte]): Seq[Long] = {
    val numbers = ByteBuffer.wrap(content).asLongBuffer
    Seq.fill(numbers.remaining)(numbers.get())
  }
}
