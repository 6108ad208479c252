package org.apache.spark.sql.streamjoin.front.functions

import java.util.Locale

import scala.util.Try

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.catalyst.plans.logical.{LocalRelation, LogicalPlan}
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.classic.{Dataset => ClassicDataset, SparkSession => ClassicSession}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streaming.StreamingQuery
import org.apache.spark.sql.streamjoin.arrangement.maintain.Arrange
import org.apache.spark.sql.streamjoin.arrangement.source.{
  ArrangementState,
  ArrangementsOfFolder,
  DropArrangement,
  ReleaseReader
}
import org.apache.spark.sql.streamjoin.arrangement.storage.ArrangementFolder
import org.apache.spark.sql.streamjoin.base.{
  BuiltJar,
  CallArguments,
  FunctionTable,
  RunningQuery,
  StreamJoinConf
}
import org.apache.spark.sql.streamjoin.evolve.UnresolvedEvolution
import org.apache.spark.sql.streamjoin.joins.interval.UnresolvedBounds
import org.apache.spark.sql.streamjoin.joins.order.ImposeOrder
import org.apache.spark.sql.streamjoin.joins.temporal.DeclaredVersions
import org.apache.spark.sql.streamjoin.observe.publish.RecentFigures
import org.apache.spark.sql.streamjoin.observe.read._
import org.apache.spark.sql.streamjoin.registry.ArrangedJoins
import org.apache.spark.sql.types.{StringType, StructType}
import org.apache.spark.sql.{AnalysisException, DataFrame, Row, SparkSession}

/**
 * A table function of [[FunctionTable]] and its builder.
 *
 * @param make
 *   builds the plan that replaces a call
 */
final private[streamjoin] case class TableFunction(
    call: FunctionTable.Call,
    make: TableFunction.Call => LogicalPlan
) {
  def isCommand: Boolean = call.form == "command"
}

private[streamjoin] object TableFunction {

  /** @param isStream whether `STREAM` stands before it */
  final case class Call(session: SparkSession, arguments: CallArguments, isStream: Boolean) {

    /** The error for a query that is not found, by the argument that names it. */
    def noQuery(which: String): AnalysisException = arguments.rejected(
      "STREAMJOIN_TABLE_FUNCTION.UNKNOWN_QUERY",
      "query",
      "query" -> arguments.text("query"),
      "which" -> which,
      "known" -> QueriesByName.known(session)
    )
  }

  /** A new function is an entry in the table and a builder here. */
  val builders: Map[String, Call => LogicalPlan] = Map(
    "IMPOSE_ORDER" -> ofTable(inlines = false, "lag") { call =>
      ImposeOrder.of(call.arguments, call.columns.head, call.child)
    },
    "VERSIONS" -> ofTable(inlines = true) { call =>
      DeclaredVersions.of(call.session, call.arguments, call.child)
    },
    "sj_bounds" -> (call => UnresolvedBounds(call.arguments[LogicalPlan]("query"))),
    "sj_evolution" -> { call =>
      val (query, checkpoint) = (call.arguments[LogicalPlan]("query"), call.arguments.text("checkpoint"))
      UnresolvedEvolution(query, checkpoint, ArrangedJoins.in)
    },
    "sj_late_rows" -> lateRows,
    "sj_explain_analyze" -> explainAnalyze,
    "sj_why" -> why,
    "sj_figures" -> figures,
    "sj_arrangements" -> arrangements,
    "sj_drop_arrangement" -> (call => DropArrangement(arrangement(call), call.arguments.flag("force"))),
    "sj_release_reader" -> (call => ReleaseReader(arrangement(call), call.arguments.text("reader"))),
    "sj_version" -> (_ => table(Version, Seq(Row(BuiltJar.version, BuiltJar.sparkVersion))))
  )

  private lazy val all: Map[String, TableFunction] =
    FunctionTable.calls("table", "command").map { case (name, call) =>
      name.toUpperCase(Locale.ROOT) -> TableFunction(call, builders(name))
    }

  def named(name: String): Option[TableFunction] = all.get(name.toUpperCase(Locale.ROOT))

  private val Version = new StructType()
    .add("version", StringType, nullable = false)
    .add("spark_version", StringType, nullable = false)

  private def table(schema: StructType, rows: Seq[Row]): LogicalPlan =
    LocalRelation.fromExternalRows(DataTypeUtils.toAttributes(schema), rows)

  private def planOf(frame: DataFrame): LogicalPlan =
    frame.asInstanceOf[ClassicDataset[_]].queryExecution.analyzed

  /**
   * A function of a table, `data`, whose plan is made once Spark has resolved the table and the
   * arguments that are expressions.
   */
  private def ofTable(inlines: Boolean, expressions: String*)(
      make: FrameFunction.Call => LogicalPlan
  )(call: Call): LogicalPlan = {
    import call.arguments
    FrameCall(
      FrameFunction(arguments.function, make, inlines),
      arguments,
      expressions.map(arguments[Expression](_)),
      arguments[LogicalPlan]("data")
    )
  }

  private def lateRows(call: Call): LogicalPlan = {
    val isStream = call.isStream || call.arguments.flag("streaming")
    val rows = QueryLateRows.named(call.session, call.arguments.text("query"), isStream)
    planOf(rows.getOrElse(throw call.noQuery("that runs, or was started from here")))
  }

  private def explainAnalyze(call: Call): LogicalPlan = {
    import call.session
    val (query, withSkew) = (call.arguments.text("query"), call.arguments.flag("with_skew"))
    val rows = QueriesByName
      .running(session, query)
      .map(ofRunning(session, _, withSkew))
      .orElse(StoppedQueries.rows(session, query, withSkew))
    table(ExplainAnalyze.Schema, rows.getOrElse(throw call.noQuery("that runs or has just stopped")))
  }

  private def ofRunning(session: SparkSession, query: StreamingQuery, withSkew: Boolean): Seq[Row] = {
    val now = System.currentTimeMillis()
    val arranged = RunningQuery
      .of(session, query.id)
      .flatMap(_.analyzedPlan.collectFirst { case arrange: Arrange => arrange })
      .map { arrange =>
        val state = ArrangementState.of(ArrangementFolder.open(new Path(arrange.root)))
        val kept = SQLConf.get.getConf(StreamJoinConf.ArrangementVersions)
        ExplainAnalyze.arrangement(state.root.getName, state.rows, state.bytes, state.hints(now, kept))
      }
    arranged.toSeq ++ QueryFigures.of(query).toSeq.flatMap(ExplainAnalyze.rows(_, withSkew, now))
  }

  private def why(call: Call): LogicalPlan = {
    import call.session
    val query = call.arguments.text("query")
    val checkpoint = QueriesByName
      .checkpoint(session, query)
      .orElse(folder(session, query))
      .getOrElse(throw call.noQuery("that runs, or was started from here"))
    val looked = new CheckpointInspector(session, checkpoint)
    val running = QueriesByName.running(session, query)
    planOf(new Why(looked, call.arguments.text("condition"), call.arguments[Int]("batches"), running).answer)
  }

  /** The name of a folder in the working directory looks like that of an unknown query. */
  private def folder(session: SparkSession, path: String): Option[Path] =
    Try(new Path(path)).toOption.filter { checkpoint =>
      def metadata = new Path(checkpoint, "metadata")
      def hadoopConf = session.asInstanceOf[ClassicSession].sessionState.newHadoopConf()
      path.contains("/") || checkpoint.getFileSystem(hadoopConf).exists(metadata)
    }

  private def figures(call: Call): LogicalPlan = {
    val query = call.arguments.text("query")
    val lines = RecentFigures.of(call.session, query).getOrElse {
      if (QueriesByName.running(call.session, query).isDefined) Nil
      else throw call.noQuery("in this driver, running or stopped")
    }
    table(RecentFigures.Schema, lines.map(Row(_)))
  }

  private def arrangements(call: Call): LogicalPlan = {
    import ArrangementsOfFolder.{row, rowOf}
    def folder = SQLConf.get.getConf(StreamJoinConf.Arrangements).getOrElse {
      throw call.arguments.rejected("STREAMJOIN_TABLE_FUNCTION.NO_FOLDER", "")
    }
    val rows = call.arguments.get[String]("name") match {
      case Some(name) => Seq(row(ArrangementState.of(ArrangementFolder.open(ArrangementFolder.root(name)))))
      case None => ArrangementState.in(ArrangementFolder.open(new Path(folder))).map(rowOf)
    }
    table(ArrangementsOfFolder.Schema, rows)
  }

  private def arrangement(call: Call): Path = ArrangementFolder.root(call.arguments.text("arrangement"))
}
