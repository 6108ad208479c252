package org.apache.spark.sql.streamjoin.sql

import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.parser.CatalystSqlParser
import org.apache.spark.sql.catalyst.plans.logical.{Join, LogicalPlan, Project}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streamjoin.analysis.{AsOfJoins, VersionColumns}
import org.apache.spark.sql.streamjoin.base.{PredicateParts, StreamJoinErrors}

import streamjoin.core.Side

/**
 * `b FOR SYSTEM_TIME AS OF a.t`, and `a ASOF JOIN b MATCH_CONDITION (a.t >= b.t)`, with `WITHIN`
 * for how far apart the times may be.
 */
private[sql] object ClosestRows {

  /** Spark's own changelogs say in this column what a row does. */
  private val ChangeType = "_change_type"

  def asOf(join: Join, names: Option[Project], clause: AsOfTime): LogicalPlan = {
    val time = column(clause.column, join.left, clause)
    val ofVersions = ResolveClauses.timeOf(join, Side.Right, clause)
    val operation = join.right.output.map(_.name).find(_.equalsIgnoreCase(ChangeType))
    val versions = VersionColumns(keysOf(join).map(_.name), ofVersions.name, operation)
    new AsOfJoins(clause.name, "temporal", Some(clause.where))
      .temporal(names.getOrElse(join), versions, time.name, None)
  }

  /**
   * The columns of the right input that equal something of the left one: all of them are the key.
   */
  private def keysOf(join: Join): Seq[Attribute] =
    join.condition.toSeq.flatMap(PredicateParts.conjuncts).flatMap {
      case EqualTo(a, b) => columnOf(join.right, a).orElse(columnOf(join.right, b))
      case _ => None
    }

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
    val condition = CatalystSqlParser.parseExpression(clause.condition).transform {
      case name: UnresolvedAttribute => column(name.nameParts, join, clause)
    }
    new AsOfJoins(clause.name, "as-of", Some(clause.where))
      .asOf(names.getOrElse(join), condition, within.map(limit => s"${limit.greatest} microseconds"))
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
    StreamJoinErrors.analysis(
      "STREAMJOIN_CLAUSE",
      "clause" -> clause.name,
      "reason" -> s"there is no column ${name.mkString(".")} among ${of.output.map(_.qualifiedName).mkString(", ")}",
      "where" -> clause.where
    )
}
