package org.apache.spark.sql.streamjoin.checkpoint

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager

/** The batches that a query has committed, by the file names in its checkpoint. */
private[streamjoin] object CommittedBatches {
  def all(checkpoint: Path, hadoopConf: Configuration): Seq[Long] =
    numbers(new Path(checkpoint, "commits"), hadoopConf)

  def last(checkpoint: Path, hadoopConf: Configuration): Option[Long] =
    all(checkpoint, hadoopConf).lastOption

  /** The first batch that is not committed. */
  def next(checkpoint: Path, hadoopConf: Configuration): Long = last(checkpoint, hadoopConf).fold(0L)(_ + 1)

  /** The last batch whose offsets are there. */
  def lastPlanned(checkpoint: Path, hadoopConf: Configuration): Option[Long] =
    numbers(new Path(checkpoint, "offsets"), hadoopConf).lastOption

  private def numbers(folder: Path, hadoopConf: Configuration): Seq[Long] = {
    val files = CheckpointFileManager.create(folder, hadoopConf)
    if (!files.exists(folder)) Nil
    else files.list(folder).toSeq.flatMap(_.getPath.getName.toLongOption).sorted
  }
}
