package org.apache.spark.sql.streamjoin.checkpoint

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager

/**
 * The sources that a batch has read, by the offset log of the checkpoint.
 *
 * @param number
 *   how often a source occurs in the query
 * @param names
 *   in place of the positions by which Spark otherwise finds them
 */
final private[streamjoin] case class CheckpointSources(number: Int, names: Option[Set[String]])

private[streamjoin] object CheckpointSources {

  /** The first line of an offset log in which the offset of each source follows its name. */
  private val Named = "v2"

  def of(batch: Long, checkpoint: Path, hadoopConf: Configuration): Option[CheckpointSources] = {
    val file = new Path(checkpoint, s"offsets/$batch")
    val files = CheckpointFileManager.create(file.getParent, hadoopConf)
    Option.when(files.exists(file)) {
      val in = files.open(file)
      val lines =
        try new String(in.readAllBytes(), "UTF-8").linesIterator.toSeq
        finally in.close()
      // The version and the metadata come first.
      val sources = lines.drop(2)
      CheckpointSources(
        sources.size,
        Option.when(lines.head.trim == Named)(sources.map(_.takeWhile(_ != ':')).toSet)
      )
    }
  }
}
