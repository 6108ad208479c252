package org.apache.spark.sql.streamjoin.analysis

import org.apache.spark.sql.streamjoin.watermark.ColumnWatermark

/**
 * Of an operator of ours: the watermark keys that a stateful operator of Spark's above awaits.
 * Without any, Spark is given the watermarks of all that is emitted.
 *
 * @param lags
 *   by key: by how many microseconds the watermark that Spark is given has to be lower
 */
final private[streamjoin] case class AwaitedKeys(lags: Map[Int, Long]) {

  /** With these as well; of two lags for a key, the larger counts. */
  def and(more: Map[Int, Long]): AwaitedKeys =
    AwaitedKeys((lags.toSeq ++ more).groupMapReduce(_._1)(_._2)(math.max))

  /**
   * The smallest of these is what Spark's stateful operators are given. A row at the watermark may
   * still come, but is late for Spark; so Spark is given less, unless the row counts by its window,
   * which ends later.
   *
   * @param emitted
   *   the keys of the columns that are emitted
   */
  def forSpark(emitted: Seq[Int], outputWatermark: Int => ColumnWatermark): Seq[ColumnWatermark] = {
    val known = if (lags.isEmpty) emitted.map(_ -> AwaitedColumns.Lag) else lags.toSeq.sorted
    known.map { case (key, lag) => ColumnWatermark.ForSpark(outputWatermark(key), lag) }
  }
}

private[streamjoin] object AwaitedKeys {
  val none: AwaitedKeys = AwaitedKeys(Map.empty)
}
