package org.apache.spark.sql.streamjoin.arrangement

import org.apache.spark.SparkEnv
import org.apache.spark.util.AccumulatorV2

/** Bytes of the indexes on each executor, for all arrangements and queries together. */
final private[streamjoin] class IndexBytes extends AccumulatorV2[Long, Map[String, Long]] {
  private var byExecutor = Map.empty[String, Long]

  /** Reports the bytes on the calling executor. */
  override def add(bytes: Long): Unit = put(SparkEnv.get.executorId, bytes)

  private def put(executor: String, bytes: Long): Unit =
    byExecutor = byExecutor.updated(executor, math.max(bytes, byExecutor.getOrElse(executor, 0L)))

  override def isZero: Boolean = byExecutor.isEmpty
  override def reset(): Unit = byExecutor = Map.empty
  override def value: Map[String, Long] = byExecutor

  override def copy(): IndexBytes = {
    val same = new IndexBytes
    same.byExecutor = byExecutor
    same
  }

  override def merge(other: AccumulatorV2[Long, Map[String, Long]]): Unit =
    other.value.foreach { case (executor, bytes) => put(executor, bytes) }
}
