package org.apache.spark.sql.streamjoin.operators

import org.apache.spark.util.AccumulatorV2

/** The lowest time seen for each watermark key, over all tasks. */
final private[streamjoin] class LowestTimes(private var seen: Map[Int, Long] = Map.empty)
    extends AccumulatorV2[(Int, Long), Map[Int, Long]] {
  override def isZero: Boolean = seen.isEmpty
  override def copy(): LowestTimes = new LowestTimes(seen)
  override def reset(): Unit = seen = Map.empty
  override def add(entry: (Int, Long)): Unit =
    seen = seen.updatedWith(entry._1)(known => Some(known.fold(entry._2)(math.min(_, entry._2))))
  override def merge(other: AccumulatorV2[(Int, Long), Map[Int, Long]]): Unit = other.value.foreach(add)
  override def value: Map[Int, Long] = seen
}
