package org.apache.spark.sql.streamjoin.arrangement

import java.io.FileNotFoundException
import java.nio.charset.StandardCharsets.UTF_8
import java.util.UUID

import com.fasterxml.jackson.databind.ObjectMapper
import org.apache.commons.io.IOUtils
import org.apache.hadoop.fs.Path

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.streamjoin.base.RunningQuery

/**
 * Which batch of a query has written a version, as the query's checkpoint has it: the number alone
 * does not tell, for a checkpoint that is put back to an earlier state counts on from there.
 *
 * @param timeMs
 *   when the batch was planned; a file source's offset is just a number, which another batch may
 *   have too
 * @param offsets
 *   where each source ends, in its own JSON
 */
final private[streamjoin] case class BatchOffsets(timeMs: Long, offsets: Seq[String])

private[streamjoin] object BatchOffsets {
  private val mapper = new ObjectMapper()

  /**
   * Of a batch that runs. It is logged before it begins (`OffsetSeqLog`: the format, what holds for
   * the batch, a line a source), and read as it is there when it runs again.
   */
  def of(session: SparkSession, query: UUID, batch: Long): Option[BatchOffsets] =
    RunningQuery.of(session, query).flatMap { micro =>
      val file = new Path(micro.resolvedCheckpointRoot, s"offsets/$batch")
      try {
        val in = file.getFileSystem(session.sessionState.newHadoopConf()).open(file)
        val lines =
          try IOUtils.toString(in, UTF_8).split("\n").toSeq
          finally in.close()
        Some(BatchOffsets(mapper.readTree(lines(1)).path("batchTimestampMs").asLong, lines.drop(2)))
      } catch { case _: FileNotFoundException => None }
    }
}
