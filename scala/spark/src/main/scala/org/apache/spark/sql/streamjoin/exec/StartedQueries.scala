package org.apache.spark.sql.streamjoin.exec

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import org.apache.spark.sql.execution.streaming.runtime.StreamMetadata

/**
 * Checkpoints of the queries that this driver has started, so that a stopped query is found by its
 * id or its name; Spark itself forgets it. They are no more than paths, and the newest ones only.
 */
private[streamjoin] object StartedQueries {
  private val Limit = 1000

  final private case class Started(checkpoint: String, name: Option[String])

  /** The newest first. */
  private var started = Vector.empty[Started]

  /** @param name the query's name, if it has one */
  def remember(checkpoint: String, name: Option[String]): Unit = synchronized {
    val query = Started(checkpoint, name)
    if (!started.headOption.contains(query))
      started = (query +: started.filterNot(_.checkpoint == checkpoint)).take(Limit)
  }

  /**
   * The checkpoint of the query that was started last under an id or a name. The id is in the
   * checkpoint; a temporary one is deleted when its query stops.
   */
  def checkpointOf(idOrName: String, hadoopConf: Configuration): Option[Path] = {
    val candidates = synchronized(started)
    candidates
      .find(query => query.name.contains(idOrName) || idOf(query, hadoopConf).contains(idOrName))
      .map(query => new Path(query.checkpoint))
  }

  private def idOf(query: Started, hadoopConf: Configuration): Option[String] =
    StreamMetadata.read(new Path(query.checkpoint, "metadata"), hadoopConf).map(_.id)
}
