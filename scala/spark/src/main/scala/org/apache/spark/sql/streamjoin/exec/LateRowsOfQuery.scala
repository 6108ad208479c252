package org.apache.spark.sql.streamjoin.exec

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.sql.execution.streaming.runtime.{StreamExecution, StreamingQueryWrapper}
import org.apache.spark.sql.streaming.StreamingQuery
import org.apache.spark.sql.streamjoin.base.{StreamJoinConf, StreamJoinErrors, TableFunction}
import org.apache.spark.sql.{DataFrame, SparkSession}

/** The rows that the joins of a query have dropped as late, as a table or as a stream. */
object LateRowsOfQuery {
  private[streamjoin] val Function: TableFunction =
    TableFunction("sj_late_rows", "SELECT * FROM sj_late_rows('the id or the name of a running query')")

  /** @throws org.apache.spark.sql.AnalysisException if the query does not keep them */
  def of(session: SparkSession, query: StreamingQuery, streaming: Boolean): DataFrame = {
    val execution = query match {
      case wrapper: StreamingQueryWrapper => wrapper.streamingQuery
      case other => other.asInstanceOf[StreamExecution]
    }
    val folder = LateRows.folder(new Path(execution.resolvedCheckpointRoot))
    val hadoopConf = session.asInstanceOf[ClassicSession].sessionState.newHadoopConf()
    val kept = execution.sparkSessionForStream.sessionState.conf.getConf(StreamJoinConf.LateRows)
    // A new query creates the folder only in its first batch, which waits for the first rows.
    if (query.isActive && kept == StreamJoinConf.Keep) LateRows.prepare(folder, hadoopConf)
    if (!LateRows.areIn(folder, hadoopConf))
      throw StreamJoinErrors.analysis(
        "STREAMJOIN_LATE_ROWS_NOT_KEPT",
        "checkpoint" -> execution.resolvedCheckpointRoot
      )
    val rows = LateRows.read(folder, session, streaming)
    if (streaming) rows else rows.where(s"batch <= ${execution.commitLog.getLatestBatchId().getOrElse(-1L)}")
  }
}
