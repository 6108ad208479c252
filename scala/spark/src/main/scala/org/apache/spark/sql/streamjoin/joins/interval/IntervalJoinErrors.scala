package org.apache.spark.sql.streamjoin.joins.interval

import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{Join, LogicalPlan}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streamjoin.analysis.{UndefinedWatermark, WatermarkLineage}
import org.apache.spark.sql.streamjoin.base.{PredicateParts, StreamJoinConf, StreamJoinErrors, Wording}
import org.apache.spark.sql.streamjoin.operator.explain.JoinNames
import org.apache.spark.sql.streamjoin.plans.StatefulNode
import org.apache.spark.sql.streamjoin.time.{DurationText, EventTime, TimeComparison}
import org.apache.spark.sql.types.TimestampType

import streamjoin.core.{JoinType, Side}

/**
 * Errors for joins whose state cannot be bounded. Each contains the conjunct, the columns found and
 * a rewrite to copy.
 */
final private[streamjoin] class IntervalJoinErrors(
    join: Join,
    joinType: JoinType,
    conjuncts: Seq[Expression],
    marked: Map[Side, Seq[Attribute]]
) {
  private val inSql: Boolean = Wording.isSql(join)
  private val names: JoinNames = JoinNames.copyable(join.left, join.right, conjuncts)
  import names.{column, columns, name, text}

  /** A comparison, without its parentheses. */
  private def unwrapped(comparison: Expression): String = text(comparison).stripPrefix("(").stripSuffix(")")

  private def plan(side: Side): LogicalPlan = if (side == Side.Left) join.left else join.right

  /**
   * The columns with a watermark, including those that the query does not read and that are missing
   * from the output.
   */
  private val shown: Map[Side, Seq[Attribute]] = marked.map { case (side, columns) =>
    side -> (if (columns.nonEmpty) columns
             else WatermarkLineage.markBelow(plan(side)).map(_.eventTime).toSeq)
  }

  private def common(side: Side): Seq[(String, String)] = Seq(
    "type" -> joinType.name,
    "side" -> side.name,
    "other" -> side.other.name,
    "condition" -> (if (conjuncts.isEmpty) "no condition" else text(PredicateParts.all(conjuncts).get)),
    "left" -> columns(shown(Side.Left)),
    "right" -> columns(shown(Side.Right))
  )

  /** @param unbounded sides without a bound, including `side` */
  def unbounded(side: Side, unbounded: Seq[Side]): AnalysisException = {
    val unmarked = Side.both.filter(shown(_).isEmpty).map { empty =>
      val mark = Wording.mark(if (inSql) "t" else empty.name, timeOf(empty).fold("time")(_.name), inSql)
      s"The ${empty.name} input has none: mark one before the join, for example $mark."
    }
    StreamJoinErrors.analysis(
      "STREAMJOIN_UNBOUNDED",
      common(side) ++ Seq(
        "notes" -> unmarked.mkString(" "),
        "rewrite" -> example(unbounded),
        "within" -> (if (inSql) "write JOIN ... WITHIN 1h ON ..."
                     else "write sj.join(left, right, on, within=\"1 hour\")"),
        "carried" -> carried(unbounded).fold("")(bound => s"or by an end that each row carries,\n$bound,\n"),
        "closest" -> closest.fold("")(call => s"or match each row only with the closest one, by\n$call,\n")
      ): _*
    )
  }

  /** A bound by a column that may be the end of its row, if a side without a bound has one. */
  private def carried(unbounded: Seq[Side]): Option[String] = (for {
    side <- unbounded
    own <- marked(side).filterNot(EventTime.isWindow).headOption.toSeq
    in <- marked(side.other).filterNot(EventTime.isWindow).headOption.toSeq
    end <- plan(side).output.find(column => column.dataType == TimestampType && mayBeEnd(column))
  } yield {
    val (from, of, until) = (column(side, own), column(side.other, in), column(side, end))
    if (unbounded.size == 1) s"$of <= $until" else s"$of BETWEEN $from AND $until"
  }).headOption

  private def mayBeEnd(column: Attribute): Boolean = {
    val isBeginning = conjuncts.flatMap(TimeComparison.pairs).exists { case (_, less, _) =>
      less.references.contains(column)
    }
    !isBeginning && !marked.values.flatten.exists(_.exprId == column.exprId)
  }

  /** If the times are compared in one direction only, the user may want an as-of join. */
  private def closest: Option[String] = {
    def isOf(side: Side, column: Expression) = marked(side).exists(_.semanticEquals(column))
    def ordered(left: Expression, right: Expression): Option[Boolean] =
      if (isOf(Side.Left, left) && isOf(Side.Right, right)) Some(true)
      else Option.when(isOf(Side.Right, left) && isOf(Side.Left, right))(false)
    val found = conjuncts.flatMap { conjunct =>
      val looksBack = conjunct match {
        case GreaterThanOrEqual(a, b) => ordered(a, b)
        case GreaterThan(a, b) => ordered(a, b)
        case LessThanOrEqual(a, b) => ordered(b, a)
        case LessThan(a, b) => ordered(b, a)
        case _ => None
      }
      looksBack.map(conjunct -> _)
    }
    found match {
      case Seq((conjunct, looksBack)) if joinType == JoinType.Inner || joinType == JoinType.LeftOuter =>
        val compared = unwrapped(conjunct)
        Some(if (inSql) closestInSql(compared, looksBack) else closestInApi(compared, looksBack))
      case _ => None
    }
  }

  private def closestInApi(compared: String, looksBack: Boolean): String = {
    val tolerance = if (looksBack) "" else """, tolerance="10 minutes""""
    s"""sj.asof_join(left, right, on, match="$compared"$tolerance)"""
  }

  private def closestInSql(compared: String, looksBack: Boolean): String = {
    val tolerance = if (looksBack) "" else " WITHIN 10 MINUTES"
    s"left ASOF JOIN right MATCH_CONDITION ($compared)$tolerance ON ..."
  }

  /** The rewrite adds a bound for each side without one. */
  def boundInOr(side: Side, or: NoBound.InsideOr, unbounded: Seq[Side]): AnalysisException = {
    val bounds = unbounded.map { each =>
      or.bounds.filter(_.side == each).maxByOption(_.postpone).fold(example(Seq(each)))(inSql)
    }
    StreamJoinErrors.analysis(
      "STREAMJOIN_BOUND_IN_OR",
      common(side) ++ Seq(
        "conjunct" -> text(or.conjunct),
        "rewrite" -> (text(or.conjunct) +: bounds).mkString(" AND ")
      ): _*
    )
  }

  /** The rewrite has the end that the OR gives each row, and a bound for the other side. */
  def endInOr(side: Side, or: NoBound.InsideOr, unbounded: Seq[Side]): AnalysisException = {
    val ends = unbounded.flatMap(each => or.ends.find(_.side == each))
    val others = unbounded.filterNot(each => ends.exists(_.side == each))
    val replaces = ends.forall(_.replaces)
    val bounds = ends.map(end => unwrapped(end.conjunct)) ++
      others.map(each => example(Seq(each)))
    StreamJoinErrors.analysis(
      "STREAMJOIN_END_IN_OR",
      common(side) ++ Seq(
        "conjunct" -> text(or.conjunct),
        "rewrite" -> ((if (replaces) Nil else Seq(text(or.conjunct))) ++ bounds).mkString(" AND "),
        "limit" -> DurationText.of(MaxLifetime.longest(SQLConf.get)),
        "cut" -> Wording.setting(StreamJoinConf.BeyondMaxLifetime.key, StreamJoinConf.Cut, inSql)
      ): _*
    )
  }

  def notConstant(side: Side, varying: NoBound.NotConstant, unbounded: Seq[Side]): AnalysisException =
    StreamJoinErrors.analysis(
      "STREAMJOIN_BOUND_NOT_CONSTANT",
      common(side) ++ Seq(
        "conjunct" -> text(varying.conjunct),
        "reason" -> varying.reason,
        "carried" -> varying.instead.filter(bound => unbounded.contains(bound.side)).fold("") { bound =>
          s"Write, in place of it,\n${unwrapped(bound.conjunct)},\nby which each row leaves at its own end. Otherwise:\n"
        },
        "rewrite" -> (copied(varying.conjunct).toSeq :+ example(unbounded, varying.longest)).mkString(" AND ")
      ): _*
    )

  /** A conjunct as text; none if it has parts that no text has. */
  private def copied(conjunct: Expression): Option[String] = Option.when(
    !SubqueryExpression.hasSubquery(conjunct) && !conjunct.exists(_.isInstanceOf[PythonFuncExpression])
  )(text(conjunct))

  /** @param times those from which the longest lifetime could count */
  def ambiguousLifetime(bound: CarriedBound, times: Seq[Attribute]): AnalysisException =
    StreamJoinErrors.analysis(
      "STREAMJOIN_AMBIGUOUS_LIFETIME",
      common(bound.side) ++ Seq(
        "conjunct" -> text(bound.conjunct),
        "times" -> columns(times),
        "rewrite" -> example(Seq(bound.side), "30 DAYS")
      ): _*
    )

  def noWatermark(side: Side, unmarked: Attribute, bound: FoundBound): AnalysisException = {
    val handedOn = marked(side).headOption.fold(s"${name(side)}.time")(instant(side, _))
    val (advice, rewrite) =
      if (EventTime.isWindow(unmarked))
        "Declare one on the time column of the window, before window(...), for example:" ->
          Wording.mark(if (inSql) "t" else name(side), "time", inSql)
      else if (plan(side).exists(keepsState))
        "After a join or an aggregation, Spark accepts no new one. Keep a column that has one, and bound the join by it, for example:" ->
          s"${time(side.other)} BETWEEN $handedOn - INTERVAL 1 HOUR AND $handedOn + INTERVAL 1 HOUR"
      else
        "Declare it before the join, for example:" ->
          Wording.mark(if (inSql) "t" else name(side), unmarked.name, inSql)
    StreamJoinErrors.analysis(
      "STREAMJOIN_NO_WATERMARK",
      common(side) ++ Seq(
        "column" -> column(side, unmarked),
        "conjunct" -> text(bound.conjunct),
        "advice" -> advice,
        "rewrite" -> rewrite
      ): _*
    )
  }

  private def keepsState(plan: LogicalPlan): Boolean =
    plan.isInstanceOf[StatefulNode] || WatermarkLineage.isStateful(plan)

  /** The column that drives the bound loses its watermark in a join below. */
  def undefinedWatermark(conjunct: Expression, where: UndefinedWatermark): AnalysisException =
    where.rejected(s"The ${joinType.name} join of two streams (${text(conjunct)})")

  private def inSql(bound: FoundBound): String = {
    val (out, in) = (column(bound.side, bound.out), column(bound.side.other, bound.in))
    val distance = DurationText.of(math.abs(bound.postpone))
    if (bound.postpone == 0) s"$out >= $in"
    else s"$out >= $in ${if (bound.postpone > 0) "-" else "+"} INTERVAL $distance"
  }

  /** Bounds for the sides without one, over existing columns. */
  private def example(unbounded: Seq[Side], length: String = "1 HOUR"): String = unbounded match {
    case Seq(side) => s"${time(side)} >= ${time(side.other)} - INTERVAL $length"
    case _ =>
      val (left, right) = (time(Side.Left), time(Side.Right))
      s"$right BETWEEN $left - INTERVAL $length AND $left + INTERVAL $length"
  }

  private def time(side: Side): String = timeOf(side).fold(s"${side.name}.time")(instant(side, _))

  /** A window is compared with other times by its end. */
  private def instant(side: Side, time: Attribute): String =
    column(side, time) + (if (EventTime.isWindow(time)) ".end" else "")

  private def timeOf(side: Side): Option[Attribute] =
    shown(side)
      .find(!EventTime.isWindow(_))
      .orElse(shown(side).headOption)
      .orElse(plan(side).output.find(_.dataType == TimestampType))
}

private[streamjoin] object IntervalJoinErrors {

  /** The error for an output watermark that never advances, although `waiting` depends on it. */
  def undefinedWatermark(join: StreamIntervalJoin, key: Int, waiting: String): AnalysisException = {
    val plan = join.plan
    val side = plan.sides(key)
    val names = JoinNames.copyable(join.left, join.right, join.condition.toSeq ++ join.times)
    val column = names.column(side, join.times(key))
    val others = plan.keys(side.other)
    val other = names.column(
      side.other,
      join.times(others.find(plan.watermarks(_).isDefined).getOrElse(others.head))
    )
    StreamJoinErrors.analysis(
      "STREAMJOIN_WATERMARK_UNDEFINED",
      "waits" -> waiting,
      "column" -> column,
      "type" -> plan.joinType.name,
      "condition" -> join.condition.fold("no condition")(names.text),
      "rewrite" -> s"$column >= $other - INTERVAL 1 HOUR"
    )
  }
}
