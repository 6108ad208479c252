package org.apache.spark.sql.streamjoin.joins.temporal

import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{Join, LogicalPlan, Project}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streamjoin.analysis.EventTimeOfInput
import org.apache.spark.sql.streamjoin.base.{PredicateParts, StreamJoinErrors}
import org.apache.spark.sql.streamjoin.changes.Unavailable
import org.apache.spark.sql.streamjoin.plans.{AsOfTime, Clause, MatchCondition, Within}

import streamjoin.core.Side

/**
 * Joins for `b FOR SYSTEM_TIME AS OF a.t` and `a ASOF JOIN b MATCH_CONDITION (a.t >= b.t)`;
 * `WITHIN` sets the tolerance.
 */
private[streamjoin] object AsOfClauses {

  /** Column with the operation in Spark's own changelogs. */
  private val ChangeType = "_change_type"

  def asOf(join: Join, names: Option[Project], clause: AsOfTime): LogicalPlan = {
    val columns = TemporalColumns(
      column(clause.column, join.left, clause),
      keysOf(join),
      EventTimeOfInput.of(join, Side.Right, clause),
      join.right.output.find(_.name.equalsIgnoreCase(ChangeType)),
      unavailable = Some(Unavailable.Default)
    )
    new AsOfJoins(clause.name, "temporal", Some(clause.where))
      .temporalOf(names.getOrElse(join), columns, None)
  }

  /** The key: all right columns that equal a left expression. */
  private def keysOf(join: Join): Seq[Attribute] =
    join.condition.toSeq.flatMap(PredicateParts.conjuncts).flatMap {
      case EqualTo(a, b) if isOfLeft(join, b) => columnOf(join.right, a)
      case EqualTo(a, b) if isOfLeft(join, a) => columnOf(join.right, b)
      case _ => None
    }

  private def isOfLeft(join: Join, expression: Expression): Boolean =
    expression.references.nonEmpty && expression.references.subsetOf(join.left.outputSet)

  private def columnOf(input: LogicalPlan, expression: Expression): Option[Attribute] = expression match {
    case column: Attribute if input.outputSet.contains(column) => Some(column)
    case cast: Cast => columnOf(input, cast.child)
    case _ => None
  }

  def matching(
      join: Join,
      names: Option[Project],
      clause: MatchCondition,
      within: Option[Within]
  ): LogicalPlan = {
    val condition = clause.condition.transform { case name: UnresolvedAttribute =>
      column(name.nameParts, join, clause)
    }
    val tolerance = within.map { limits =>
      if (limits.least != -limits.greatest)
        throw refused("it is how far apart the times may be: write one duration, such as WITHIN 10m", limits)
      s"${limits.greatest} microseconds"
    }
    val sparks =
      if (join.left.isStreaming && join.right.isStreaming) None else SparksAsOfJoin.of(join, condition)
    sparks.foreach { _ =>
      within.foreach(limits =>
        throw refused("an input is a batch, and Spark's as-of join has no limit", limits)
      )
    }
    sparks.fold {
      new AsOfJoins(clause.name, "as-of", Some(clause.where))
        .asOf(names.getOrElse(join), condition, tolerance)
    }(own => names.fold(own)(_.withNewChildren(Seq(own))))
  }

  private def column(name: Seq[String], of: LogicalPlan, clause: Clause): Attribute =
    (of match {
      case join: Join => join.left.output ++ join.right.output
      case input => input.output
    }).resolve(name, SQLConf.get.resolver) match {
      case Some(found: Attribute) => found
      case _ => throw unknown(name, of, clause)
    }

  private def unknown(name: Seq[String], of: LogicalPlan, clause: Clause): AnalysisException =
    refused(
      s"there is no column ${name.mkString(".")} among ${of.output.map(_.qualifiedName).mkString(", ")}",
      clause
    )

  private def refused(reason: String, clause: Clause): AnalysisException =
    StreamJoinErrors.analysis(
      "STREAMJOIN_CLAUSE",
      "clause" -> clause.name,
      "reason" -> reason,
      "where" -> clause.where
    )
}
