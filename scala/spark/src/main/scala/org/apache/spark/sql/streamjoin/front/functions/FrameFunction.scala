package org.apache.spark.sql.streamjoin.front.functions

import org.apache.spark.sql.catalyst.expressions.{Alias, Attribute, Expression, GetStructField}
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, Project}
import org.apache.spark.sql.catalyst.util.quoteIfNeeded
import org.apache.spark.sql.classic.{Dataset => ClassicDataset, SparkSession => ClassicSession}
import org.apache.spark.sql.streamjoin.analysis.StreamInput
import org.apache.spark.sql.streamjoin.arrangement.maintain.Arrangements
import org.apache.spark.sql.streamjoin.changes.Unavailable
import org.apache.spark.sql.streamjoin.joins.delta.DeltaJoins
import org.apache.spark.sql.streamjoin.joins.interval.IntervalJoins
import org.apache.spark.sql.streamjoin.joins.order.{RowtimeOrder, WindowJoins}
import org.apache.spark.sql.streamjoin.joins.temporal.{Closest, TemporalJoins, VersionedInput}
import org.apache.spark.sql.types.MetadataBuilder
import org.apache.spark.sql.{AnalysisException, DataFrame, SparkSession}

import streamjoin.core.Side

/**
 * A function of the API on one DataFrame, as a client sends it. Of two inputs the DataFrame is
 * their plain join: `left.join(right, on, how)`.
 *
 * @param arguments
 *   names of its arguments
 * @param replace
 *   the plan in place of the call, made of the resolved child, the arguments and the resolved
 *   columns
 */
final private[streamjoin] class FrameFunction private (
    val name: String,
    val arguments: Set[String],
    val columns: Range,
    val replace: FrameFunction.Call => LogicalPlan
) {
  override def toString: String = name
}

/** All functions, by name. Python calls them in classic sessions and over Spark Connect alike. */
private[streamjoin] object FrameFunction {

  /** What a function is called with. */
  final case class Call(
      session: SparkSession,
      child: LogicalPlan,
      arguments: CallArguments,
      columns: Seq[Expression]
  ) {

    /** The child as a DataFrame, for what is written in terms of DataFrames. */
    def frame: DataFrame = ClassicDataset.ofRows(session.asInstanceOf[ClassicSession], child)
  }

  private def planOf(frame: DataFrame): LogicalPlan =
    frame.asInstanceOf[ClassicDataset[_]].queryExecution.analyzed

  private def function(name: String, arguments: String*)(replace: Call => LogicalPlan): FrameFunction =
    new FrameFunction(name, arguments.toSet, 0 to 0, replace)

  /** It is answered once the whole query is analyzed: rules.query.AnswerBoundsFunction. */
  val Bounds: FrameFunction = function("sj_bounds")(_.child)

  private val all: Map[String, FrameFunction] = Seq(
    Bounds,
    function("sj_within", "lower", "upper") { call =>
      IntervalJoins.within(call.child, call.arguments.optionalText("lower"), call.arguments.text("upper"))
    },
    function("sj_window_join", "following", "preceding") { call =>
      val windows = Seq(Side.Right -> "following", Side.Left -> "preceding")
      WindowJoins.of(
        call.child,
        windows.flatMap { case (side, name) => call.arguments.optionalText(name).map(side -> _) }.toMap
      )
    },
    function("sj_versions", "key", "time", "op", "order", "unavailable", "as_sent") { call =>
      import call.arguments._
      val versions =
        VersionedInput(
          call.frame,
          texts("key"),
          optionalText("time"),
          optionalText("op"),
          optionalText("order"),
          unavailable(call.arguments)
        )
      versions.check()
      planOf(versions.rows)
    },
    function(
      "sj_temporal_join",
      "key",
      "time",
      "op",
      "order",
      "as_of",
      "history",
      "ordered",
      "unavailable",
      "as_sent"
    ) { call =>
      import call.arguments._
      TemporalJoins.temporal(
        call.child,
        texts("key"),
        text("time"),
        optionalText("op"),
        optionalText("order"),
        optionalText("as_of"),
        optionalText("history"),
        flag("ordered", default = true),
        unavailable(call.arguments)
      )
    },
    new FrameFunction(
      "sj_asof_join",
      Set("match", "direction", "allow_exact_matches", "tolerance", "ordered"),
      0 to 1,
      call => {
        import call.arguments._
        val by =
          call.columns.map(Closest.ByCondition) ++ optionalText("match").map(Closest.BySql) ++
            optionalText("direction").map { direction =>
              Closest.InDirection(direction, flag("allow_exact_matches", default = true))
            }
        val (tolerance, ordered) = (optionalText("tolerance"), flag("ordered", default = true))
        by match {
          case Seq(_: Closest.BySql) => planOf(TemporalJoins.asof(call.frame, by, tolerance, ordered))
          case _ => TemporalJoins.asof(call.child, by, tolerance, ordered)
        }
      }
    ),
    function("sj_changes")(call => DeltaJoins.ofTables(call.session, call.child).getOrElse(call.child)),
    function("sj_delta_join", "names", "how") { call =>
      DeltaJoins.of(call.child, call.arguments.texts("names"), call.arguments.text("how"))
    },
    function("sj_impose_order", "time", "lag", "sort") { call =>
      val (time, sort) = (call.arguments.text("time"), call.arguments.flag("sort", default = false))
      val marked =
        new StreamInput("sj.impose_order").imposeOrder(call.child, time, call.arguments.text("lag"))
      if (sort) RowtimeOrder.of(marked, time) else marked
    },
    function("sj_with_bounds", "time", "is_bound", "lag", "per") { call =>
      import call.arguments._
      new StreamInput("sj.with_bounds")
        .withBounds(call.child, text("time"), text("is_bound"), optionalText("lag"), optionalText("per"))
    },
    function("sj_idle_after", "after") { call =>
      new StreamInput("sj.idle_after").idleAfter(call.child, call.arguments.text("after"))
    },
    function("sj_arrange", "path", "keys", "op", "diff", "time", "order", "ttl", "unavailable", "as_sent") {
      call =>
        import call.arguments._
        planOf(
          Arrangements.arrange(
            call.frame,
            text("path"),
            textLists("keys"),
            optionalText("op"),
            optionalText("diff"),
            optionalText("time"),
            optionalText("order"),
            optionalText("ttl"),
            unavailable(call.arguments)
          )
        )
    },
    new FrameFunction("sj_column", Set("call", "argument"), 1 to 1, column)
  ).map(function => function.name -> function).toMap

  /** What stands for a value that was not sent; Debezium's text unless values are taken as sent. */
  private def unavailable(arguments: CallArguments): Option[String] =
    if (arguments.flag("as_sent", default = false)) None
    else arguments.optionalText("unavailable").orElse(Some(Unavailable.Default))

  def named(name: String): Option[FrameFunction] = all.get(name.toLowerCase(java.util.Locale.ROOT))

  /** The column of the DataFrame that an expression is; the client reads its name. */
  private def column(call: Call): LogicalPlan = call.columns.head match {
    case found: Attribute if call.child.outputSet.contains(found) => Project(Seq(found), call.child)
    case other: Attribute =>
      throw new StreamInput(call.arguments.text("call")).wrong(
        other.sql,
        "the DataFrame does not have it",
        s"Its columns are ${call.child.output.map(_.name).mkString(", ")}."
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
    new StreamInput(arguments.text("call")).wrong(
      expression.sql,
      s"it is computed, and $argument is a column that is there",
      s"""Compute it before: df = df.withColumn("$argument", ...), and write $argument="$argument"."""
    )
  }
}
