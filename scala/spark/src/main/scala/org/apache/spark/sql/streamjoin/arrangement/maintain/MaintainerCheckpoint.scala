package org.apache.spark.sql.streamjoin.arrangement.maintain

import java.io.FileNotFoundException
import java.util.UUID

import scala.util.Try

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import org.apache.spark.sql.execution.streaming.runtime.StreamMetadata
import org.apache.spark.sql.streamjoin.arrangement.storage.{ArrangementFolder, BatchOffsets, Restored}

/**
 * The checkpoint of a query that maintains an arrangement, before the query starts. Batch n writes
 * version n before Spark commits the batch. So either the next batch has not written its version
 * yet, or it runs again:
 *
 * {{{
 *   batches     committed: 0 to 6, planned: 7         the arrangement has 0 to 6, or 0 to 7
 *   otherwise                                         one of the two was restored
 * }}}
 */
final private[streamjoin] class MaintainerCheckpoint(checkpoint: String, hadoopConf: Configuration) {
  private val root = new Path(checkpoint)
  private val (committed, planned) = (last("commits"), last("offsets"))
  private val next = if (planned > committed) planned else committed + 1

  /** The id of the query; none if it has never run. */
  def query: Option[UUID] =
    StreamMetadata.read(new Path(root, "metadata"), hadoopConf).map(found => UUID.fromString(found.id))

  private def last(folder: String): Long = {
    val path = new Path(root, folder)
    try
      path
        .getFileSystem(hadoopConf)
        .listStatus(path)
        .flatMap(file => Try(file.getPath.getName.toLong).toOption)
        .maxOption
        .getOrElse(-1L)
    catch { case _: FileNotFoundException => -1L }
  }

  /**
   * @throws org.apache.spark.sql.AnalysisException
   *   if an arrangement is not the one that it has written
   */
  def check(folder: ArrangementFolder): Unit = {
    val (name, newest) = (folder.root.toString, if (folder.exists) folder.newest else -1L)
    if (newest < next - 1) throw Restored.arrangement(name, checkpoint, next - 1, newest)
    if (newest > next || newest == next && planned < next)
      throw Restored.checkpoint(name, checkpoint, next, newest)
    if (newest >= 0)
      ArrangementWrite.checkBatch(
        folder.root,
        folder.manifest(newest),
        BatchOffsets.in(root, newest, hadoopConf)
      )
  }
}
