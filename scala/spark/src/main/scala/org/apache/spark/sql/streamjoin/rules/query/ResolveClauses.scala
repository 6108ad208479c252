package org.apache.spark.sql.streamjoin.rules.query

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{Join, LogicalPlan, Project}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.streamjoin.analysis.{CommonTables, EventTimeOfInput}
import org.apache.spark.sql.streamjoin.joins.order.WindowJoinBuilder
import org.apache.spark.sql.streamjoin.joins.temporal.AsOfClauses
import org.apache.spark.sql.streamjoin.plans.{AsOfTime, Clause, JoinWithClauses, MatchCondition, Over, Within}
import org.apache.spark.sql.streamjoin.time.TimeDistance

import streamjoin.core.{JoinWindows, Side}

/**
 * Converts a join with clauses to one with time bounds. Spark calls the rule while a query is
 * analyzed. It acts once the join is resolved, because by then a join with `USING` or `NATURAL` has
 * become a plain one.
 */
private[streamjoin] object ResolveClauses extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = {
    lazy val tables = CommonTables.of(plan)
    val replaced = plan.resolveOperatorsUp {
      case JoinWithClauses(left, right, join: Join) if join.resolved =>
        resolved(join, None, left, right, tables)
      case JoinWithClauses(left, right, names @ Project(_, join: Join)) if names.resolved =>
        resolved(join, Some(names), left, right, tables)
    }
    // The versions of a common table may have replaced it.
    if ((replaced eq plan) || tables.isEmpty) replaced else CommonTables.withoutUnused(replaced)
  }

  private def resolved(
      join: Join,
      names: Option[Project],
      left: Seq[Clause],
      right: Seq[Clause],
      tables: => CommonTables
  ): LogicalPlan = right
    .collectFirst {
      case time: AsOfTime => AsOfClauses.asOf(join, names, time, tables.inlined(join.right))
      case condition: MatchCondition =>
        AsOfClauses.matching(join, names, condition, right.collectFirst { case within: Within => within })
    }
    .getOrElse(bounded(join, names, left, right))

  /** @param names projection that Spark puts above a join on names */
  private def bounded(
      join: Join,
      names: Option[Project],
      left: Seq[Clause],
      right: Seq[Clause]
  ): LogicalPlan = {
    val times = Side.both.map(side => side -> EventTimeOfInput.of(join, side, (left ++ right).head)).toMap
    val within = right.collect { case Within(least, greatest, _) =>
      TimeDistance.within(times(Side.Left), times(Side.Right), least, greatest)
    }
    val windows = Side.both
      .zip(Seq(left, right))
      .flatMap { case (side, clauses) =>
        clauses.collect { case Over(window, _) => side -> window }
      }
      .toMap
    val plain = join.copy(condition = (join.condition ++ within).reduceOption[Expression](And(_, _)))
    plain.copyTagsFrom(join)
    if (windows.nonEmpty) WindowJoinBuilder.of(plain, names, JoinWindows(windows), times)
    else
      names.fold[LogicalPlan](plain) { columns =>
        val project = columns.copy(child = plain)
        project.copyTagsFrom(columns)
        project
      }
  }
}
