package org.apache.spark.sql.streamjoin.sql

import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{Join, LogicalPlan, Project}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.streamjoin.analysis.WindowJoin
import org.apache.spark.sql.streamjoin.base.StreamJoinErrors
import org.apache.spark.sql.streamjoin.time.{EventTime, TimeDistance}

import streamjoin.core.{JoinWindows, Side}

/**
 * Turns a join with clauses into one with time bounds. Spark calls the rule while a query is
 * analyzed; it acts once the join is resolved, because a join with `USING` or `NATURAL` is a plain
 * one by then.
 */
private[streamjoin] object ResolveClauses extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan.resolveOperatorsUp {
    case JoinWithClauses(left, right, join: Join) if join.resolved => resolved(join, None, left, right)
    case JoinWithClauses(left, right, names @ Project(_, join: Join)) if names.resolved =>
      resolved(join, Some(names), left, right)
  }

  private def resolved(
      join: Join,
      names: Option[Project],
      left: Seq[Clause],
      right: Seq[Clause]
  ): LogicalPlan = right
    .collectFirst {
      case time: AsOfTime => ClosestRows.asOf(join, names, time)
      case condition: MatchCondition =>
        ClosestRows.matching(join, names, condition, right.collectFirst { case within: Within => within })
    }
    .getOrElse(bounded(join, names, left, right))

  /** @param names projection that Spark puts above a join on names */
  private def bounded(
      join: Join,
      names: Option[Project],
      left: Seq[Clause],
      right: Seq[Clause]
  ): LogicalPlan = {
    val times = Side.both.map(side => side -> timeOf(join, side, (left ++ right).head)).toMap
    val within = right.collect { case Within(least, greatest, _) =>
      val (leftTime, rightTime) = (times(Side.Left), times(Side.Right))
      And(
        GreaterThanOrEqual(rightTime, TimeDistance.later(leftTime, least)),
        GreaterThanOrEqual(leftTime, TimeDistance.later(rightTime, -greatest))
      )
    }
    val windows = Side.both
      .zip(Seq(left, right))
      .flatMap { case (side, clauses) =>
        clauses.collect { case Over(window, _) => side -> window }
      }
      .toMap
    val plain = join.copy(condition = (join.condition ++ within).reduceOption[Expression](And(_, _)))
    plain.copyTagsFrom(join)
    if (windows.nonEmpty) WindowJoin.of(plain, names, JoinWindows(windows), times)
    else
      names.fold[LogicalPlan](plain) { columns =>
        val project = columns.copy(child = plain)
        project.copyTagsFrom(columns)
        project
      }
  }

  private[sql] def timeOf(join: Join, side: Side, clause: Clause): Attribute = {
    val input = if (side == Side.Left) join.left else join.right
    if (!input.isStreaming) throw noStream(side, clause)
    EventTime.of(input.output).distinctBy(_.exprId) match {
      case Seq(one) => one
      case columns => throw notOne(side, clause, columns)
    }
  }

  private def noStream(side: Side, clause: Clause): AnalysisException = {
    val advice = clause match {
      case _: AsOfTime =>
        "Read the changes of the table by STREAM, or leave the clause out and join it as it is."
      case _ => "Write the bound as a condition in ON or WHERE."
    }
    StreamJoinErrors.analysis(
      "STREAMJOIN_NOT_A_STREAM",
      "call" -> clause.name,
      "wanted" -> "two streams",
      "found" -> s"the ${side.name} input is none",
      "advice" -> s"$advice\n${clause.where}"
    )
  }

  private def notOne(side: Side, clause: Clause, columns: Seq[Attribute]): AnalysisException = {
    val found =
      if (columns.isEmpty) "none" else s"${columns.size}: ${columns.map(_.qualifiedName).mkString(", ")}"
    val advice =
      if (columns.isEmpty)
        "Mark one by withWatermark, or in SQL by `WATERMARK t DELAY OF INTERVAL 10 SECONDS` after the table's name."
      else "Write the bound as a condition in ON, or leave the other columns out of the input by a subquery."
    StreamJoinErrors.analysis(
      "STREAMJOIN_EVENT_TIME",
      "call" -> clause.name,
      "side" -> side.name,
      "found" -> found,
      "advice" -> s"$advice\n${clause.where}"
    )
  }
}
