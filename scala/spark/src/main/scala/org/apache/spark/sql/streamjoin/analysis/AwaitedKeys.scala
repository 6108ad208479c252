package org.apache.spark.sql.streamjoin.analysis

import org.apache.spark.sql.streamjoin.watermark.ColumnWatermark

/**
 * The watermark keys of one of our operators that a stateful Spark operator above awaits. If there
 * are none, Spark gets the watermarks of all emitted columns.
 *
 * @param lags
 *   by key: how far Spark's watermark has to stay below ours, in microseconds
 */
final private[streamjoin] case class AwaitedKeys(lags: Map[Int, Long]) {

  /** Adds more keys; of two lags for a key, the larger counts. */
  def and(more: Map[Int, Long]): AwaitedKeys =
    AwaitedKeys((lags.toSeq ++ more).groupMapReduce(_._1)(_._2)(math.max))

  /**
   * Spark's stateful operators get the smallest of these. A row at the watermark may still come,
   * but Spark would drop it as late. So Spark gets less, unless the row counts by its window, which
   * ends later.
   *
   * @param emitted
   *   watermark keys of the emitted columns
   */
  def forSpark(emitted: Seq[Int], outputWatermark: Int => ColumnWatermark): Seq[ColumnWatermark] = {
    val known = if (lags.isEmpty) emitted.map(_ -> AwaitedColumns.Lag) else lags.toSeq.sorted
    known.map { case (key, lag) => ColumnWatermark.ForSpark(outputWatermark(key), lag) }
  }
}

private[streamjoin] object AwaitedKeys {
  val none: AwaitedKeys = AwaitedKeys(Map.empty)
}
