package org.apache.spark.sql.streamjoin.front.functions

import java.util.Locale

import org.apache.spark.sql.catalyst.expressions.{Alias, Attribute, Expression, GetStructField}
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, Project}
import org.apache.spark.sql.catalyst.util.quoteIfNeeded
import org.apache.spark.sql.classic.{Dataset => ClassicDataset, SparkSession => ClassicSession}
import org.apache.spark.sql.streamjoin.analysis.{NamedColumns, StreamInput}
import org.apache.spark.sql.streamjoin.arrangement.maintain.Arrangements
import org.apache.spark.sql.streamjoin.base.{CallArguments, FunctionTable}
import org.apache.spark.sql.streamjoin.joins.delta.DeltaJoins
import org.apache.spark.sql.streamjoin.joins.interval.IntervalJoins
import org.apache.spark.sql.streamjoin.joins.order.{RowtimeOrder, WindowJoins}
import org.apache.spark.sql.streamjoin.joins.temporal.{Closest, TemporalJoins, VersionedInput}
import org.apache.spark.sql.types.MetadataBuilder
import org.apache.spark.sql.{AnalysisException, DataFrame}

import streamjoin.core.Side

/**
 * A function of [[FunctionTable]] on one DataFrame, as a client sends it, and its builder. For two
 * inputs, the DataFrame is their plain join: `left.join(right, on, how)`.
 *
 * @param replace
 *   builds the plan that replaces the call from the resolved child, the arguments and the resolved
 *   columns
 * @param inlines
 *   whether the tables of `WITH` in the child are inlined first, as a DataFrame requires. A stream
 *   in such a table is then read once for each call.
 */
final private[streamjoin] case class FrameFunction(
    call: FunctionTable.Call,
    replace: FrameFunction.Call => LogicalPlan,
    inlines: Boolean = true
) {
  def name: String = call.name
}

/** All functions, by name. Scala, Python and Spark Connect call them in the same way. */
private[streamjoin] object FrameFunction {

  /** The input and the arguments of a call. */
  final case class Call(
      session: ClassicSession,
      child: LogicalPlan,
      arguments: CallArguments,
      columns: Seq[Expression]
  ) {

    /** The child as a DataFrame, for builders that are written in terms of DataFrames. */
    def frame: DataFrame = ClassicDataset.ofRows(session, child)
  }

  private def planOf(frame: DataFrame): LogicalPlan =
    frame.asInstanceOf[ClassicDataset[_]].queryExecution.analyzed

  /** They are answered once the whole query is analyzed, see rules.query.AnswerQueryFunctions. */
  val Bounds = "sj_bounds"
  val Evolution = "sj_evolution"

  /** Python uses it to find out which column a `Column` refers to. */
  val Column = "sj_column"

  /** A new function is an entry in the table and a builder here. */
  val builders: Map[String, Call => LogicalPlan] = Map(
    Bounds -> (_.child),
    Evolution -> (_.child),
    "sj_within" -> { call =>
      IntervalJoins.within(call.child, call.arguments.get("lower"), call.arguments.text("upper"))
    },
    "sj_window_join" -> { call =>
      val windows = Seq[(Side, String)](Side.Right -> "following", Side.Left -> "preceding")
      val passed = windows.flatMap { case (side, name) => call.arguments.get[String](name).map(side -> _) }
      WindowJoins.of(call.child, passed.toMap)
    },
    "sj_versions" -> versions,
    "sj_temporal_join" -> { call =>
      import call.arguments._
      TemporalJoins.temporal(
        call.child,
        texts("key"),
        text("time"),
        get("op"),
        get("order"),
        get("as_of"),
        get("history"),
        flag("ordered"),
        unavailable(call)
      )
    },
    "sj_asof_join" -> asOfJoin,
    "sj_changes" -> (call => DeltaJoins.ofTables(call.session, call.child).getOrElse(call.child)),
    "sj_delta_join" -> { call =>
      DeltaJoins.of(call.child, call.arguments.texts("names"), call.arguments.text("how"))
    },
    "sj_impose_order" -> { call =>
      val time = call.arguments.text("time")
      val marked =
        new StreamInput("sj.impose_order").imposeOrder(call.child, time, call.arguments.text("lag"))
      if (call.arguments.flag("sort")) RowtimeOrder.of(marked, time) else marked
    },
    "sj_sorted" -> (call => RowtimeOrder.of(call.child, call.arguments.text("time"))),
    "sj_with_bounds" -> { call =>
      import call.arguments._
      new StreamInput("sj.with_bounds")
        .withBounds(call.child, text("time"), text("is_bound"), get("lag"), get("per"))
    },
    "sj_idle_after" -> { call =>
      new StreamInput("sj.idle_after").idleAfter(call.child, call.arguments.text("after"))
    },
    "sj_arrange" -> arrange,
    Column -> column
  )

  private lazy val all: Map[String, FrameFunction] =
    FunctionTable.calls("frame").map { case (name, call) => name -> FrameFunction(call, builders(name)) }

  def named(name: String): Option[FrameFunction] = all.get(name.toLowerCase(Locale.ROOT))

  /** The placeholder for a value that was not sent. */
  private def unavailable(call: Call): Option[String] =
    call.arguments.get[String]("unavailable").filterNot(_ => call.arguments.flag("as_sent"))

  private def versions(call: Call): LogicalPlan = {
    import call.arguments._
    val versions =
      VersionedInput(call.frame, texts("key"), get("time"), get("op"), get("order"), unavailable(call))
    planOf(versions.rows)
  }

  private def asOfJoin(call: Call): LogicalPlan = {
    import call.arguments._
    val by = call.columns.map(Closest.ByCondition) ++ get[String]("match").map(Closest.BySql) ++
      get[String]("direction").map(Closest.InDirection(_, flag("allow_exact_matches")))
    TemporalJoins.asof(call.session, call.child, by, get("tolerance"), flag("ordered"))
  }

  private def arrange(call: Call): LogicalPlan = {
    import call.arguments._
    planOf(
      Arrangements.arrange(
        call.frame,
        text("path"),
        call.arguments[Seq[Seq[String]]]("keys"),
        get("op"),
        get("diff"),
        get("time"),
        get("order"),
        get("ttl"),
        unavailable(call)
      )
    )
  }

  /** The column of the DataFrame that an expression refers to; the client reads its name. */
  private def column(call: Call): LogicalPlan = call.columns.head match {
    case found: Attribute if call.child.outputSet.contains(found) => Project(Seq(found), call.child)
    case other: Attribute =>
      throw new NamedColumns(call.arguments.text("call")).wrong(
        other.sql,
        "STREAMJOIN_COLUMN.OTHER_DATAFRAME",
        "columns" -> call.child.output.map(_.name).mkString(", "),
        "argument" -> call.arguments.text("argument")
      )
    case Field(field, names) if mayBeField(call.arguments) =>
      val mark = new MetadataBuilder().putBoolean("streamjoin.path", true).build()
      Project(
        Seq(Alias(field, names.map(quoteIfNeeded).mkString("."))(explicitMetadata = Some(mark))),
        call.child
      )
    case other => throw computed(call.arguments, other)
  }

  private def mayBeField(arguments: CallArguments): Boolean = arguments.text("argument") match {
    case "order" => true
    case "key" => arguments.text("call") == "sj.versions"
    case _ => false
  }

  /** A field of a column, and its path. */
  private object Field {
    def unapply(expression: Expression): Option[(Expression, Seq[String])] = expression match {
      case Alias(field, _) => unapply(field)
      case field: GetStructField => pathOf(field).map(field -> _)
      case _ => None
    }

    private def pathOf(expression: Expression): Option[Seq[String]] = expression match {
      case field: GetStructField => pathOf(field.child).map(_ :+ field.extractFieldName)
      case column: Attribute => Some(Seq(column.name))
      case _ => None
    }
  }

  /** The error for an expression in place of a column. */
  def computed(arguments: CallArguments, expression: Expression): AnalysisException = {
    val argument = arguments.text("argument")
    new NamedColumns(arguments.text("call"))
      .wrong(expression.sql, "STREAMJOIN_COLUMN.COMPUTED", "argument" -> argument)
  }
}
