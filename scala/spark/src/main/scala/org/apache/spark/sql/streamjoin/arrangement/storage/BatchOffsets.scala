package org.apache.spark.sql.streamjoin.arrangement.storage

import java.io.FileNotFoundException
import java.nio.charset.StandardCharsets.UTF_8
import java.util.UUID

import com.fasterxml.jackson.databind.ObjectMapper
import org.apache.commons.io.IOUtils
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.streamjoin.base.RunningQuery

/**
 * Identifies the batch of a query that wrote a version, from the query's checkpoint. The batch
 * number is not sufficient: a checkpoint that is restored to an earlier state reuses numbers.
 *
 * @param timeMs
 *   when the batch was planned, in milliseconds since the epoch; a file source's offset is just a
 *   number, which another batch may share
 * @param offsets
 *   end offset of each source, in its own JSON
 */
final private[streamjoin] case class BatchOffsets(timeMs: Long, offsets: Seq[String])

private[streamjoin] object BatchOffsets {
  private val mapper = new ObjectMapper()

  /**
   * The offsets of a running batch. Spark logs them before the batch begins (`OffsetSeqLog`: the
   * format, the batch's metadata, a line per source), and a retry reads the same file.
   */
  def of(session: SparkSession, query: UUID, batch: Long): Option[BatchOffsets] =
    RunningQuery.of(session, query).flatMap { micro =>
      in(new Path(micro.resolvedCheckpointRoot), batch, session.sessionState.newHadoopConf())
    }

  /** The offsets of a batch in a checkpoint. */
  def in(checkpoint: Path, batch: Long, hadoopConf: Configuration): Option[BatchOffsets] = {
    val file = new Path(checkpoint, s"offsets/$batch")
    try {
      val in = file.getFileSystem(hadoopConf).open(file)
      val lines =
        try IOUtils.toString(in, UTF_8).split("\n").toSeq
        finally in.close()
      Some(BatchOffsets(mapper.readTree(lines(1)).path("batchTimestampMs").asLong, lines.drop(2)))
    } catch { case _: FileNotFoundException => None }
  }
}
