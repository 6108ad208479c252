package org.apache.spark.sql.streamjoin.joins.interval

import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{Join, LogicalPlan}
import org.apache.spark.sql.streamjoin.analysis.{UndefinedWatermark, WatermarkLineage}
import org.apache.spark.sql.streamjoin.base.{PredicateParts, StreamJoinErrors}
import org.apache.spark.sql.streamjoin.exec.explain.JoinNames
import org.apache.spark.sql.streamjoin.plans.StatefulNode
import org.apache.spark.sql.streamjoin.time.{DurationText, EventTime}
import org.apache.spark.sql.types.TimestampType

import streamjoin.core.{JoinType, Side}

/**
 * Errors for joins whose state cannot be bounded. Each has the conjunct, the columns found and a
 * rewrite to copy.
 */
final private[streamjoin] class IntervalJoinErrors(
    join: Join,
    joinType: JoinType,
    conjuncts: Seq[Expression],
    marked: Map[Side, Seq[Attribute]]
) {
  private val names: JoinNames = JoinNames.copyable(join.left, join.right, conjuncts)
  import names.{column, columns, name, text}

  private def common(side: Side): Seq[(String, String)] = Seq(
    "type" -> joinType.name,
    "side" -> side.name,
    "other" -> side.other.name,
    "condition" -> (if (conjuncts.isEmpty) "no condition" else text(PredicateParts.all(conjuncts).get)),
    "left" -> columns(marked(Side.Left)),
    "right" -> columns(marked(Side.Right))
  )

  /** @param unbounded sides without a bound, including `side` */
  def unbounded(side: Side, unbounded: Seq[Side]): AnalysisException = {
    val unmarked = Side.both.filter(marked(_).isEmpty).map { empty =>
      s"The ${empty.name} input has none: mark one by withWatermark before the join."
    }
    StreamJoinErrors.analysis(
      "STREAMJOIN_UNBOUNDED",
      common(side) ++ Seq(
        "notes" -> unmarked.mkString(" "),
        "rewrite" -> example(unbounded),
        "closest" -> closest.fold("")(call => s"or let each row meet only the closest one, by\n$call,\n")
      ): _*
    )
  }

  /** If the times are compared in one direction only, an as-of join may be meant. */
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
        val compared = text(conjunct).stripPrefix("(").stripSuffix(")")
        val tolerance = if (looksBack) "" else """, tolerance="10 minutes""""
        Some(s"""sj.asof_join(left, right, on, match="$compared"$tolerance)""")
      case _ => None
    }
  }

  /** The rewrite adds a bound for each side that has none. */
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

  def notConstant(side: Side, varying: NoBound.NotConstant, unbounded: Seq[Side]): AnalysisException =
    StreamJoinErrors.analysis(
      "STREAMJOIN_BOUND_NOT_CONSTANT",
      common(side) ++ Seq(
        "conjunct" -> text(varying.conjunct),
        "reason" -> varying.reason,
        "rewrite" -> s"${text(varying.conjunct)} AND ${example(unbounded, varying.longest)}"
      ): _*
    )

  def noWatermark(side: Side, unmarked: Attribute, bound: FoundBound): AnalysisException = {
    val handedOn = marked(side).headOption.fold(s"${name(side)}.time")(column(side, _))
    val (advice, rewrite) =
      if (EventTime.isWindow(unmarked))
        "Declare one on the column that the window is made of, before window(...), for example:" ->
          s"""${name(side)}.withWatermark("time", "10 seconds")"""
      else if ((if (side == Side.Left) join.left else join.right).exists(keepsState))
        "Behind a join or an aggregation Spark takes no new one. Hand on a column that has one, and bound the join by it, for example:" ->
          s"${time(side.other)} BETWEEN $handedOn - INTERVAL 1 HOUR AND $handedOn + INTERVAL 1 HOUR"
      else
        "Declare it before the join, for example:" ->
          s"""${name(side)}.withWatermark("${unmarked.name}", "10 seconds")"""
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

  /** The bound is driven by a column that loses its watermark in a join below. */
  def undefinedWatermark(bound: FoundBound, where: UndefinedWatermark): AnalysisException =
    where.refused(s"The ${joinType.name} join of two streams (${text(bound.conjunct)})")

  private def inSql(bound: FoundBound): String = {
    val (out, in) = (column(bound.side, bound.out), column(bound.side.other, bound.in))
    val distance = DurationText.of(math.abs(bound.postpone))
    if (bound.postpone == 0) s"$out >= $in"
    else s"$out >= $in ${if (bound.postpone > 0) "-" else "+"} INTERVAL $distance"
  }

  /** Bounds for the sides that have none, over existing columns. */
  private def example(unbounded: Seq[Side], length: String = "1 HOUR"): String = unbounded match {
    case Seq(side) => s"${time(side)} >= ${time(side.other)} - INTERVAL $length"
    case _ =>
      val (left, right) = (time(Side.Left), time(Side.Right))
      s"$right BETWEEN $left - INTERVAL $length AND $left + INTERVAL $length"
  }

  private def time(side: Side): String =
    marked(side)
      .find(!EventTime.isWindow(_))
      .orElse((if (side == Side.Left) join.left else join.right).output.find(_.dataType == TimestampType))
      .map(column(side, _))
      .getOrElse(s"${side.name}.time")
}

private[streamjoin] object IntervalJoinErrors {

  /** The error for an output watermark that never advances, although `waiting` depends on it. */
  def undefinedWatermark(join: IntervalJoin, key: Int, waiting: String): AnalysisException = {
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
