package org.apache.spark.sql.streamjoin.checkpoint

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager

/** The batches that a query has committed, by the file names in its checkpoint. */
private[streamjoin] object CommittedBatches {
  private val Directory = "commits"

  def all(checkpoint: Path, hadoopConf: Configuration): Seq[Long] = {
    val commits = new Path(checkpoint, Directory)
    val files = CheckpointFileManager.create(commits, hadoopConf)
    if (!files.exists(commits)) Nil
    else files.list(commits).toSeq.flatMap(_.getPath.getName.toLongOption).sorted
  }

  def last(checkpoint: Path, hadoopConf: Configuration): Option[Long] =
    all(checkpoint, hadoopConf).lastOption
}
