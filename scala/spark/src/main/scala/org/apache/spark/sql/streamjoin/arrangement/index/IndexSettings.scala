package org.apache.spark.sql.streamjoin.arrangement.index

import org.apache.spark.SparkEnv
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streamjoin.base.{SharedServer, StreamJoinConf}
import org.apache.spark.util.AccumulatorV2

/**
 * The settings of a query for the indexes of its executors. All queries of an application share the
 * indexes, and the last query to request one decides; on a server of several users, the server
 * decides.
 *
 * @param memory
 *   `spark.streamjoin.executorIndexMemory`, in bytes
 * @param idleAge
 *   `spark.streamjoin.arrangements.idleIndexAge`, in milliseconds
 */
final private[streamjoin] case class IndexSettings(
    memory: Option[Long] = None,
    idleAge: Option[Long] = None
)

private[streamjoin] object IndexSettings {
  def of(conf: SQLConf): IndexSettings = IndexSettings(
    SharedServer.get(StreamJoinConf.ExecutorIndexMemory, conf),
    SharedServer.get(StreamJoinConf.ArrangementIdleIndexAge, conf)
  )
}

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
