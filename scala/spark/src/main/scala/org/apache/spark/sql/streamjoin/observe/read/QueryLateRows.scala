package org.apache.spark.sql.streamjoin.observe.read

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.sql.streaming.StreamingQuery
import org.apache.spark.sql.streamjoin.base.{EventTimeText, StreamJoinConf, StreamJoinErrors}
import org.apache.spark.sql.streamjoin.checkpoint.CommittedBatches
import org.apache.spark.sql.streamjoin.laterows.LateRows
import org.apache.spark.sql.{DataFrame, SparkSession}

/** The rows that the joins of a query have dropped as late, as a table or as a stream. */
private[streamjoin] object QueryLateRows {

  /** @throws org.apache.spark.sql.AnalysisException if the query does not keep them */
  private def of(session: SparkSession, query: StreamingQuery, streaming: Boolean): DataFrame = {
    val execution = QueriesByName.execution(query)
    val checkpoint = new Path(execution.resolvedCheckpointRoot)
    val kept = execution.sparkSessionForStream.sessionState.conf.getConf(StreamJoinConf.LateRows)
    // A new query creates the folder only in its first batch, which waits for the first rows.
    if (query.isActive && kept == StreamJoinConf.Keep)
      LateRows.prepare(LateRows.folder(checkpoint), hadoopConf(session))
    in(session, checkpoint, streaming)
  }

  /**
   * The late rows of a query that may have stopped: a running query of the session, or the one that
   * was last started under the id or the name.
   */
  def named(
      session: SparkSession,
      idOrName: String,
      streaming: Boolean
  ): Option[DataFrame] =
    QueriesByName
      .running(session, idOrName)
      .map(of(session, _, streaming))
      .orElse(QueriesByName.checkpoint(session, idOrName).map(in(session, _, streaming)))

  /** The late rows in a checkpoint, if it has any; the watermark is a timestamp. */
  def kept(session: SparkSession, checkpoint: Path): Option[DataFrame] =
    Option.when(LateRows.areIn(LateRows.folder(checkpoint), hadoopConf(session))) {
      timed(session, checkpoint, streaming = false)
    }

  private def in(session: SparkSession, checkpoint: Path, streaming: Boolean): DataFrame = {
    val rows = timed(session, checkpoint, streaming)
    rows.withColumn("watermark", EventTimeText.of(rows("watermark")))
  }

  private def timed(session: SparkSession, checkpoint: Path, streaming: Boolean): DataFrame = {
    val folder = LateRows.folder(checkpoint)
    if (!LateRows.areIn(folder, hadoopConf(session)))
      throw StreamJoinErrors.analysis("STREAMJOIN_LATE_ROWS_NOT_KEPT", "checkpoint" -> checkpoint.toString)
    val rows = LateRows.read(folder, session, streaming)
    if (streaming) rows
    else rows.where(s"batch <= ${CommittedBatches.last(checkpoint, hadoopConf(session)).getOrElse(-1L)}")
  }

  private def hadoopConf(session: SparkSession) =
    session.asInstanceOf[ClassicSession].sessionState.newHadoopConf()
}
