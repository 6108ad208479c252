package org.apache.spark.sql.streamjoin.rules

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.catalyst.analysis.{NamedStreamingRelation, UnresolvedTableValuedFunction}
import org.apache.spark.sql.catalyst.expressions.Literal
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.classic.{Dataset => ClassicDataset, SparkSession => ClassicSession}
import org.apache.spark.sql.execution.streaming.runtime.{StreamExecution, StreamingQueryWrapper}
import org.apache.spark.sql.streaming.StreamingQuery
import org.apache.spark.sql.streamjoin.base.{StreamJoinConf, StreamJoinErrors}
import org.apache.spark.sql.streamjoin.operators.LateRows
import org.apache.spark.sql.streamjoin.sql.TableFunction
import org.apache.spark.sql.types.StringType
import org.apache.spark.sql.{DataFrame, SparkSession}
import org.apache.spark.unsafe.types.UTF8String

/** The rows that the joins of a query have dropped as late, as a table or as a stream. */
private[streamjoin] object LateRowsOfQuery {
  val Function: TableFunction =
    TableFunction("sj_late_rows", "SELECT * FROM sj_late_rows('the id or the name of a running query')")

  /** @throws org.apache.spark.sql.AnalysisException where the query does not keep them */
  def of(session: SparkSession, query: StreamingQuery, streaming: Boolean): DataFrame = {
    val execution = query match {
      case wrapper: StreamingQueryWrapper => wrapper.streamingQuery
      case other => other.asInstanceOf[StreamExecution]
    }
    val folder = LateRows.folder(new Path(execution.resolvedCheckpointRoot))
    val hadoopConf = session.asInstanceOf[ClassicSession].sessionState.newHadoopConf()
    val kept = execution.sparkSessionForStream.sessionState.conf.getConf(StreamJoinConf.LateRows)
    // Of a new query the first batch makes it, which comes with the first rows.
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

/** `sj_late_rows('query')`, and `STREAM sj_late_rows('query')`. */
final private[streamjoin] case class ReadLateRows(session: SparkSession) extends Rule[LogicalPlan] {
  import LateRowsOfQuery.Function

  override def apply(plan: LogicalPlan): LogicalPlan = plan.resolveOperatorsDown {
    case NamedStreamingRelation(call: UnresolvedTableValuedFunction, _)
        if Function.isCalledBy(call, session) =>
      rows(call, streaming = true)
    case call: UnresolvedTableValuedFunction if Function.isCalledBy(call, session) =>
      rows(call, streaming = false)
  }

  private def rows(call: UnresolvedTableValuedFunction, streaming: Boolean): LogicalPlan = {
    val (name, at) = call.functionArgs match {
      case Seq(argument @ Literal(name: UTF8String, _: StringType)) => (name.toString, argument.origin)
      case Seq(other) =>
        throw Function.refused(s"takes the id or the name of a query, and not ${other.sql}", other.origin)
      case _ => throw Function.refused("takes the id or the name of a query", call.origin)
    }
    val running = session.streams.active
    val query = running
      .find(query => query.id.toString == name || query.name == name)
      .getOrElse {
        val names = running.map(query => Option(query.name).getOrElse(query.id.toString))
        val known = if (names.isEmpty) "none runs" else s"these run: ${names.mkString(", ")}"
        throw Function.refused(s"finds no running query $name; $known", at)
      }
    LateRowsOfQuery.of(session, query, streaming).asInstanceOf[ClassicDataset[_]].queryExecution.analyzed
  }
}
