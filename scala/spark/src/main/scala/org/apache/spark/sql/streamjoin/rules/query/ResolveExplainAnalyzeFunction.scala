package org.apache.spark.sql.streamjoin.rules.query
import org.apache.hadoop.fs.Path

import org.apache.spark.sql.catalyst.analysis.UnresolvedTableValuedFunction
import org.apache.spark.sql.catalyst.expressions.Literal
import org.apache.spark.sql.catalyst.plans.logical.{LocalRelation, LogicalPlan}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streaming.StreamingQuery
import org.apache.spark.sql.streamjoin.arrangement.maintain.Arrange
import org.apache.spark.sql.streamjoin.arrangement.source.ArrangementState
import org.apache.spark.sql.streamjoin.arrangement.storage.ArrangementFolder
import org.apache.spark.sql.streamjoin.base.{RunningQuery, StreamJoinConf, TextArgument}
import org.apache.spark.sql.streamjoin.observe.read.{
  ExplainAnalyze,
  QueriesByName,
  QueryFigures,
  StoppedQueries
}
import org.apache.spark.sql.types.BooleanType
import org.apache.spark.sql.{Row, SparkSession}

/**
 * Replaces `sj_explain_analyze('query')`, perhaps with `true` for a row for each task, with a table
 * of what the query keeps. Spark calls the rule while a query is analyzed, before it looks up the
 * function.
 */
final private[streamjoin] case class ResolveExplainAnalyzeFunction(session: SparkSession)
    extends Rule[LogicalPlan] {
  import ExplainAnalyze.{Function, Schema}

  override def apply(plan: LogicalPlan): LogicalPlan = plan.resolveOperatorsDown {
    case call: UnresolvedTableValuedFunction if Function.isCalledBy(call, session) =>
      val (name, skew) = call.functionArgs match {
        case Seq(TextArgument(name)) => (name, false)
        case Seq(TextArgument(name), Literal(skew: Boolean, BooleanType)) => (name, skew)
        case _ =>
          throw Function.refused(
            "takes the id or the name of a query and, for a row for each task, true",
            call.origin
          )
      }
      val rows = QueriesByName
        .running(session, name)
        .map(ofRunning(_, skew))
        .orElse(StoppedQueries.rows(session, name, skew))
        .getOrElse(
          throw Function.refused(
            s"finds no query $name that runs or has just stopped; ${QueriesByName.known(session)}",
            call.origin
          )
        )
      LocalRelation.fromExternalRows(DataTypeUtils.toAttributes(Schema), rows)
  }

  private def ofRunning(query: StreamingQuery, skew: Boolean): Seq[Row] = {
    val now = System.currentTimeMillis()
    arrangement(query, now).toSeq ++ QueryFigures.of(query).toSeq.flatMap(ExplainAnalyze.rows(_, skew, now))
  }

  /** Of a query that maintains an arrangement. */
  private def arrangement(query: StreamingQuery, now: Long): Option[Row] =
    RunningQuery
      .of(session, query.id)
      .flatMap(_.analyzedPlan.collectFirst { case arrange: Arrange => arrange })
      .map { arrange =>
        val state = ArrangementState.of(ArrangementFolder.open(new Path(arrange.root)))
        val kept = SQLConf.get.getConf(StreamJoinConf.ArrangementVersions)
        ExplainAnalyze.arrangement(state.root.getName, state.rows, state.bytes, state.hints(now, kept))
      }
}
