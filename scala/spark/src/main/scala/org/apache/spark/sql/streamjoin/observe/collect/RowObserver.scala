package org.apache.spark.sql.streamjoin.observe.collect

import org.apache.datasketches.frequencies.{ErrorType, LongsSketch}

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.streamjoin.state.RowLayout

import streamjoin.core.Side

/**
 * Counts a task's rows for monitoring: how late each row is, how far apart matches are, and which
 * keys have the most rows. It does not affect the output. If there are many rows, it samples and
 * weights them; the selection depends only on the number of rows.
 *
 * @param newest
 *   by input: the newest event time, in microseconds, from which the watermark for late rows is
 *   computed
 * @param layouts
 *   by input
 * @param times
 *   by input: position of the observed time in a buffered row, among its times
 * @param samples
 *   whether to keep a sample of the keys, to compare those of the two inputs. This costs more.
 */
final private[streamjoin] class RowObserver(
    newest: Seq[Option[Long]],
    layouts: Seq[RowLayout],
    times: Seq[Int],
    samples: Boolean
) {
  import RowObserver._

  private val timeFields = layouts.zip(times).map { case (layout, at) => layout.times(at) }.toArray
  private val bases = newest.map(_.getOrElse(Long.MinValue)).padTo(2, Long.MinValue).toArray
  private val lateness = Array.fill(2)(new TimeHistogram)
  private val distances = new TimeHistogram
  private var matches = 0L
  private val keys = layouts.map(layout => if (layout.keys.isEmpty) null else new HotKeys(layout)).toArray

  private val nullKeys = new Array[Long](2)
  private val sampled = if (samples) Array.fill(2)(new KeySample) else null

  /** Counts a row of an input, late or not. */
  def came(side: Side, time: Long): Unit = {
    val base = bases(side.index)
    if (base != Long.MinValue) lateness(side.index).add(base - time, 1)
  }

  /** Counts a row that has no match because its key has a null. */
  def hasNullKey(side: Side): Unit = nullKeys(side.index) += 1

  /** Counts a row that is buffered. */
  def kept(side: Side, row: UnsafeRow): Unit = {
    val seen = keys(side.index)
    if (seen != null) seen.add(row)
    if (sampled != null) sampled(side.index).add(row, layouts(side.index), timeFields(side.index))
  }

  /**
   * Counts a match; returns whether its distance is needed. There may be far more matches than
   * rows, so this must be cheap.
   */
  def asksForMatch: Boolean = {
    matches += 1
    matches <= ExactRows || (matches & (OfMatches - 1)) == 0
  }

  /**
   * Records the distance of the match that was counted last.
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

  /** Each of the first rows is observed. */
  final private val ExactRows = 256L

  /** Every so many-th later match is observed: a power of two. */
  final private val OfMatches = 64L

  /** Every so many-th later buffered row is observed: a power of two. */
  final private val OfRows = 64L

  /** A key with a lower share of a task's rows is not hot. */
  private val Share = 0.05

  /** A key with fewer observed rows than this may have been sampled by chance. */
  private val MinSampleHits = 4L

  /** Fewer rows do not allow a conclusion about their keys. */
  private val MinRows = 100L

  /** The maximum number of hot keys per task. */
  private val Keys = 3

  /**
   * @param key
   *   its values as text
   * @param rows
   *   the approximate number of its rows in the batch
   */
  final case class HotKey(key: String, rows: Long)

  /**
   * @param lateness
   *   for the rows of each input: how far they are behind the newest row of earlier batches;
   *   negative if they are ahead of it
   * @param distances
   *   for matches: the time of the right row minus that of the left one
   * @param hotKeys
   *   by input
   * @param nullKeys
   *   by input: rows without a match because of a null in their key
   * @param samples
   *   samples of the keys, by input
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
   * The most frequent keys among the rows of one input. Keys are distinguished by their hash; only
   * frequent ones are converted to text.
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

    /** A key with more rows is hot. One or two sampled rows are not sufficient. */
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
