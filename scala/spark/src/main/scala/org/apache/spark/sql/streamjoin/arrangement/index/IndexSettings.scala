package org.apache.spark.sql.streamjoin.arrangement.index

import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streamjoin.base.{SharedServer, StreamJoinConf}

/**
 * What a query says about the indexes of its executors. All queries of an application share the
 * indexes, and the last one to ask for one decides; on a server of several users, the server.
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
