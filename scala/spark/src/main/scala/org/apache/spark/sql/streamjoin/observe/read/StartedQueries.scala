package org.apache.spark.sql.streamjoin.observe.read

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import org.apache.spark.sql.execution.streaming.runtime.StreamMetadata
import org.apache.spark.sql.streamjoin.base.{LeftBySessions, QueryOwner}

/**
 * Checkpoints of the queries that this driver has started, so that a stopped query is found by its
 * id or its name; Spark itself forgets it. They are no more than paths, and the newest ones only.
 */
private[streamjoin] object StartedQueries {
  final private case class Started(checkpoint: String, name: Option[String])

  private val started = new LeftBySessions[Started](ofSession = 1000, ofAll = 10000)

  /**
   * @param owner
   *   id of the session that starts the query
   * @param name
   *   the query's name, if it has one
   */
  def remember(owner: String, checkpoint: String, name: Option[String]): Unit =
    started.put(owner)(_.checkpoint == checkpoint)(_ => Started(checkpoint, name))

  /**
   * The checkpoint of the query that was started last under an id or a name. The id is in the
   * checkpoint; a temporary one is deleted when its query stops.
   */
  def checkpointOf(asker: QueryOwner, idOrName: String, hadoopConf: Configuration): Option[Path] =
    started
      .first(asker)(query => query.name.contains(idOrName) || idOf(query, hadoopConf).contains(idOrName))
      .map(query => new Path(query.checkpoint))

  private def idOf(query: Started, hadoopConf: Configuration): Option[String] =
    StreamMetadata.read(new Path(query.checkpoint, "metadata"), hadoopConf).map(_.id)
}
