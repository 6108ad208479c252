package org.apache.spark.sql.streamjoin.observe.collect

import org.apache.datasketches.frequencies.{ErrorType, LongsSketch}

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.streamjoin.state.RowLayout

import streamjoin.core.Side

/**
 * What a task counts about its rows for those who look at the query: how far each row is behind,
 * how far apart matches are, and which keys have most of the rows. No row depends on it. Of many
 * rows a part is looked at and weighted; which one depends on their number alone.
 *
 * @param newest
 *   by input: the newest event time, in microseconds, that the watermark of late rows comes from
 * @param layouts
 *   by input
 * @param samples
 *   whether to keep a sample of the keys, which costs more: to compare those of the two inputs
 */
final private[streamjoin] class RowObserver(
    newest: Seq[Option[Long]],
    layouts: Seq[RowLayout],
    samples: Boolean
) {
  import RowObserver._

  private val bases = newest.map(_.getOrElse(Long.MinValue)).padTo(2, Long.MinValue).toArray
  private val lateness = Array.fill(2)(new TimeHistogram)
  private val distances = new TimeHistogram
  private var matches = 0L
  private val keys = layouts.map(layout => if (layout.keys.isEmpty) null else new HotKeys(layout)).toArray

  private val nullKeys = new Array[Long](2)
  private val sampled = if (samples) Array.fill(2)(new KeySample) else null

  /** A row of an input, late or not. */
  def came(side: Side, time: Long): Unit = {
    val base = bases(side.index)
    if (base != Long.MinValue) lateness(side.index).add(base - time, 1)
  }

  /** A row that has no match, because its key has a null. */
  def hasNullKey(side: Side): Unit = nullKeys(side.index) += 1

  /** A row that is kept. */
  def kept(side: Side, row: UnsafeRow): Unit = {
    val seen = keys(side.index)
    if (seen != null) seen.add(row)
    if (sampled != null) sampled(side.index).add(row, layouts(side.index))
  }

  /**
   * Counts a match; whether its distance is asked for. There may be far more matches than rows, so
   * this has to be cheap.
   */
  def asksForMatch: Boolean = {
    matches += 1
    matches <= ExactRows || (matches & (OfMatches - 1)) == 0
  }

  /**
   * The distance of the match that was counted last.
   *
   * @param left
   *   time of the left row
   */
  def matched(left: Long, right: Long): Unit =
    distances.add(right - left, if (matches <= ExactRows) 1 else OfMatches)

  def report: Observed = Observed(
    lateness.toIndexedSeq,
    distances,
    keys.toIndexedSeq.map(seen => if (seen == null) Nil else seen.hottest),
    nullKeys.toIndexedSeq,
    matches,
    Option(sampled).map(_.toIndexedSeq)
  )
}

private[streamjoin] object RowObserver {

  /** Of the first rows, each counts. */
  final private val ExactRows = 256L

  /** Of further matches, one of so many: a power of two. */
  final private val OfMatches = 64L

  /** Of further kept rows, one of so many: a power of two. */
  final private val OfRows = 64L

  /** A key with a lower share of a task's rows is not hot. */
  private val Share = 0.05

  /** Of further rows, a key was among fewer by chance. */
  private val MinSampleHits = 4L

  /** Fewer rows say nothing about their keys. */
  private val MinRows = 100L

  /** Of each task. */
  private val Keys = 3

  /**
   * @param key
   *   its values as text
   * @param rows
   *   about as many rows of the batch
   */
  final case class HotKey(key: String, rows: Long)

  /**
   * @param lateness
   *   of the rows of each input: how far they are behind the newest row of earlier batches; below
   *   zero if they are ahead of it
   * @param distances
   *   of matches: the time of the right row minus that of the left one
   * @param hotKeys
   *   by input
   * @param nullKeys
   *   by input: rows that have no match because of a null in their key
   * @param samples
   *   of the keys, by input
   */
  final case class Observed(
      lateness: IndexedSeq[TimeHistogram],
      distances: TimeHistogram,
      hotKeys: IndexedSeq[Seq[HotKey]],
      nullKeys: IndexedSeq[Long],
      matches: Long,
      samples: Option[IndexedSeq[KeySample]]
  )

  /**
   * The most frequent keys among the rows of one input. Keys are told apart by their hash; the text
   * is made of those that are frequent.
   */
  final private class HotKeys(layout: RowLayout) {
    private val sketch = new LongsSketch(64)
    private val texts = scala.collection.mutable.Map.empty[Long, String]
    private var rows = 0L

    def add(row: UnsafeRow): Unit = {
      rows += 1
      if (rows <= ExactRows) add(row, 1)
      else if ((rows & (OfRows - 1)) == 0) add(row, OfRows)
    }

    private def add(row: UnsafeRow, weight: Long): Unit = {
      val hash = layout.hash(row.getBaseObject, row.getBaseOffset).toLong
      sketch.update(hash, weight)
      if (rows >= MinRows && sketch.getLowerBound(hash) > hot && !texts.contains(hash))
        texts(hash) = layout.keyText(row)
    }

    /** A key with more rows is hot. One or two rows that happen to be counted do not make it so. */
    private def hot: Long =
      math.max((rows * Share).toLong, if (rows > ExactRows) MinSampleHits * OfRows else 0L)

    def hottest: Seq[HotKey] =
      if (rows < MinRows) Nil
      else
        sketch
          .getFrequentItems(hot, ErrorType.NO_FALSE_POSITIVES)
          .toSeq
          .flatMap(found => texts.get(found.getItem).map(HotKey(_, math.min(found.getEstimate, rows))))
          .sortBy(-_.rows)
          .take(Keys)
  }
}
