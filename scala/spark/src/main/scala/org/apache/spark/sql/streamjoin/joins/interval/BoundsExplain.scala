package org.apache.spark.sql.streamjoin.joins.interval

import org.apache.spark.sql.catalyst.expressions.{Attribute, Expression}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.streamjoin.analysis.{InputName, OptimizedQuery, PreparedQuery}
import org.apache.spark.sql.streamjoin.operator.explain.{JoinNames, WatermarkExplain}
import org.apache.spark.sql.streamjoin.plans.QueryFunction
import org.apache.spark.sql.streamjoin.time.{DurationText, EventTime}
import org.apache.spark.sql.types.{IntegerType, StringType, StructType}
import org.apache.spark.sql.{Row, SparkSession}

import streamjoin.core.Side

/** The time bounds of a join, in a form for users. */
final private[streamjoin] class BoundsExplain(
    join: IntervalJoinSpec,
    times: Seq[Attribute],
    names: JoinNames
) {
  import names.{column, name, text, written}

  /** All bounds, and for each event-time column without one, the source of its watermark. */
  def all: Seq[BoundInWords] =
    join.found.map(bound) ++ join.carried
      .map(byValue) ++ times.indices.filterNot(join.bounds.expires).flatMap(derived)

  private def derived(key: Int): Seq[BoundInWords] = {
    val side = join.sides(key)
    val out = column(side, times(key))
    val reaching = for {
      bound <- join.bounds.reaching(key)
      constraint <- join.constraints
      if constraint.out == times(bound.out).exprId && constraint.in == times(bound.in).exprId
    } yield BoundInWords(
      side,
      name(side),
      written(times(key)),
      BoundsExplain.inequality(column(side, times(bound.in)), out, bound.postpone),
      s"$out is held back with ${column(side, times(bound.in))}",
      constraint.from.map(source => text(source.conjunct)).mkString(" AND "),
      constraint.from.map(_.ordinal.fold("a filter")(n => s"join ${n + 1}")).distinct.mkString(", ")
    )
    if (reaching.nonEmpty) reaching
    else
      Seq(
        BoundInWords(
          side,
          name(side),
          written(times(key)),
          "none",
          s"$out has no watermark in the output of this join",
          "",
          ""
        )
      )
  }

  private def byValue(one: CarriedKey): BoundInWords = {
    val bound = one.bound
    val value = text(bound.value)
    val (_, ofIn, moved) = BoundsExplain.ends(isWindow = false, EventTime.isWindow(bound.in))
    val limit = one.max.micros.map(DurationText.of).fold("without a limit") { longest =>
      if (one.max.cuts && !one.max.isBound) s"cut off after $longest" else s"at most $longest"
    }
    BoundInWords(
      bound.side,
      name(bound.side),
      bound.value match {
        case column: Attribute => written(column)
        case _ => value
      },
      BoundsExplain.inequality(column(bound.side.other, bound.in) + ofIn, value, bound.postpone + moved),
      s"${name(bound.side)} kept until $value, $limit",
      text(bound.conjunct),
      BoundInWords.Own
    )
  }

  private def bound(found: FoundBound): BoundInWords = {
    val (ofOut, ofIn, moved) =
      BoundsExplain.ends(EventTime.isWindow(found.out), EventTime.isWindow(found.in))
    val in = column(found.side.other, found.in) + ofIn
    val postpone = found.postpone + moved
    val bound = BoundsExplain.inequality(in, column(found.side, found.out) + ofOut, postpone)
    val offset = math.abs(postpone)
    val keeps =
      if (postpone >= 0) s"${name(found.side)} kept ${DurationText.of(postpone)}"
      else s"${name(found.side)} kept until ${DurationText.of(offset)} before the watermark of $in"
    BoundInWords(
      found.side,
      name(found.side),
      written(found.out),
      bound,
      keeps,
      text(found.conjunct),
      BoundInWords.Own
    )
  }
}

private object BoundsExplain {

  /**
   * A window stands for its last instant. Next to another time, its end is easier to read.
   *
   * @return
   *   what follows the name of each column, and by how much later the bound then is
   */
  private def ends(isWindow: Boolean, isOtherWindow: Boolean): (String, String, Long) =
    (isWindow, isOtherWindow) match {
      case (true, false) => (".end", "", -1L)
      case (false, true) => ("", ".end", 1L)
      case _ => ("", "", 0L)
    }

  /** `out >= in - postpone`, as a user would write it. */
  private def inequality(in: String, out: String, postpone: Long): String =
    if (postpone == 0) s"$in <= $out"
    else s"$in <= $out ${if (postpone > 0) "+" else "-"} ${DurationText.of(math.abs(postpone))}"
}

/**
 * A time bound, in a form for users.
 *
 * @param side
 *   side whose rows it keeps
 * @param input
 *   user-facing name of that side
 * @param column
 *   event-time column of that side
 * @param bound
 *   inequality, such as `d.time <= o.time + 1 hour`
 * @param keeps
 *   retention, such as `orders kept 1 hour`
 * @param conjunct
 *   part of the condition that contains the bound
 * @param origin
 *   join or filter that has this condition
 */
final private[streamjoin] case class BoundInWords(
    side: Side,
    input: String,
    column: String,
    bound: String,
    keeps: String,
    conjunct: String,
    origin: String
) {
  override def toString: String =
    if (origin == BoundInWords.Own) s"$bound: $keeps"
    else if (origin.isEmpty) keeps
    else s"$bound by $origin: $keeps"
}

private[streamjoin] object BoundInWords {
  val Own = "this join"
}

/** The description of a join in EXPLAIN. */
final private[interval] class IntervalJoinExplain(
    join: IntervalJoinSpec,
    times: Seq[Attribute],
    names: JoinNames,
    watermarks: WatermarkExplain
) {

  def description(
      leftKeys: Seq[Expression],
      rightKeys: Seq[Expression],
      condition: Option[Expression],
      tasks: Int
  ): Seq[String] = {
    val equality = leftKeys.zip(rightKeys).map { case (l, r) => s"${names.text(l)} = ${names.text(r)}" }
    Seq(
      join.joinType.name,
      if (equality.isEmpty) "no equality" else equality.mkString("equality ", " AND ", ""),
      new BoundsExplain(join, times, names).all.mkString("bounds ", "; ", ""),
      condition.map(names.text).fold("no other condition")("condition " + _),
      watermarks.inWords,
      routing(tasks)
    )
  }

  private def routing(tasks: Int): String = join.routing match {
    case Routing.ByKey => s"routing by hash of the equality over $tasks tasks, one state store each"
    case Routing.Spread(side) =>
      s"routing without an equality: ${names.name(side.other)} spread over $tasks tasks, one state store each; " +
        s"${names.name(side)} sent to all of them and kept in the first one's store"
    case Routing.OneTask =>
      "routing of a full outer join without an equality: all rows to one task, with one state store"
  }
}

/** The time bounds of all stream-stream joins in a query, as `sj.bounds` shows them. */
private[streamjoin] object BoundsOfQuery {
  val Schema: StructType =
    Seq("side", "input", "column", "bound", "keeps", "conjunct", "origin").foldLeft(
      new StructType().add("join", IntegerType, nullable = false)
    )(_.add(_, StringType, nullable = false))

  /** @throws org.apache.spark.sql.AnalysisException for a join that `start()` would reject */
  def rows(analyzed: LogicalPlan, session: SparkSession): Seq[Row] = {
    val plan = PreparedQuery.of(analyzed)
    val inputs = InputName.of(plan)
    for {
      join <- OptimizedQuery.nodes(plan, session).collect { case join: StreamIntervalJoin => join }
      plan = join.plan
      names = JoinNames
        .of(plan.sides, plan.watermarks, join.times, join.left, join.right, inputs)
      words <- new BoundsExplain(plan, join.times, names).all
    } yield Row(
      join.plan.ordinal + 1,
      words.side.name,
      words.input,
      words.column,
      words.bound,
      words.keeps,
      words.conjunct,
      words.origin
    )
  }
}

/** The placeholder for `sj_bounds(TABLE(query))`. */
final private[streamjoin] case class UnresolvedBounds(output: Seq[Attribute], child: LogicalPlan)
    extends QueryFunction {
  override def call: String = "sj.bounds"

  override def answer(query: LogicalPlan, session: SparkSession): Seq[Row] =
    BoundsOfQuery.rows(query, session)

  override protected def withNewChildInternal(newChild: LogicalPlan): UnresolvedBounds =
    copy(child = newChild)
}

private[streamjoin] object UnresolvedBounds {
  def apply(query: LogicalPlan): UnresolvedBounds =
    UnresolvedBounds(DataTypeUtils.toAttributes(BoundsOfQuery.Schema), query)
}
