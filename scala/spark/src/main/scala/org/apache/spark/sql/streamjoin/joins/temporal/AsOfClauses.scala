package org.apache.spark.sql.streamjoin.joins.temporal

import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{Join, LogicalPlan, Project}
import org.apache.spark.sql.catalyst.util.quoteIfNeeded
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streamjoin.analysis.EventTimeOfInput
import org.apache.spark.sql.streamjoin.base.{PredicateParts, StreamJoinErrors}
import org.apache.spark.sql.streamjoin.changes.Unavailable
import org.apache.spark.sql.streamjoin.plans.{AsOfTime, Clause, MatchCondition, Within}
import org.apache.spark.sql.streamjoin.time.EventTime

import streamjoin.core.Side

/**
 * Joins for `b FOR SYSTEM_TIME AS OF a.t` and `a ASOF JOIN b MATCH_CONDITION (a.t >= b.t)`;
 * `WITHIN` sets the tolerance.
 */
private[streamjoin] object AsOfClauses {

  /** Column with the operation in Spark's own changelogs. */
  private val ChangeType = "_change_type"

  /**
   * The key of the versions is the one declared by `VERSIONS(...)` or by the table's catalog.
   * Without a declaration, it consists of the columns that the condition compares with the left
   * input.
   *
   * @param versions
   *   the right input with its common tables
   */
  def asOf(join: Join, names: Option[Project], clause: AsOfTime, versions: LogicalPlan): LogicalPlan = {
    val left = column(clause.column, join.left, clause)
    def eventTime = EventTimeOfInput.of(join, Side.Right, clause)
    def operation = join.right.output.find(_.name.equalsIgnoreCase(ChangeType))
    def known[A](declared: Either[String, A]): A = declared.fold(
      missing => throw clause.error("STREAMJOIN_CLAUSE.VERSIONS_COLUMN", "column" -> missing),
      identity
    )
    def of(key: Seq[Expression]) = TemporalColumns[Attribute, Expression](
      left,
      key,
      eventTime,
      operation,
      unavailable = Some(Unavailable.Default)
    )
    val (columns, source) = VersionColumns
      .declared(versions)
      .map(known(_))
      .map { declared =>
        val columns = TemporalColumns[Attribute, Expression](
          left,
          declared.key,
          declared.time.getOrElse(eventTime),
          declared.op.orElse(operation),
          declared.order,
          declared.unavailable
        )
        (columns, "as VERSIONS declares")
      }
      .orElse(VersionColumns.primaryKey(versions).map(known(_)).map(key => (of(key), "the PRIMARY KEY")))
      .getOrElse {
        val key = keysOf(join)
        checkConstants(join, key, clause)
        (of(key), "as ON compares them; VERSIONS would declare it")
      }
    val key = columns.key.map(VersionColumns.nameOf).mkString(", ")
    new AsOfJoins(
      clause.name,
      "temporal",
      Some(clause.where),
      keyInWords = Some(s"key of the versions ($key), $source")
    )
      .temporalOf(names.getOrElse(join), columns, versions)
  }

  /**
   * A column that is compared with a constant may be part of the key. A version of another row of
   * the table would then hide the requested one.
   */
  private def checkConstants(join: Join, key: Seq[Attribute], clause: AsOfTime): Unit =
    for {
      conjunct <- join.condition.toSeq.flatMap(PredicateParts.conjuncts)
      equality <- ConstantEquality.in(conjunct)
      column <- columnOrField(join.right, equality.of)
    } {
      val name = VersionColumns.nameOf(column)
      val names = (key.map(VersionColumns.nameOf) :+ name).distinct
      val time =
        EventTime.of(join.right.output).headOption.fold("since")(column => quoteIfNeeded(column.name))
      def versions(key: Seq[String]) = s"VERSIONS(TABLE(...), KEY(${key.mkString(", ")}), TIME($time))"
      throw StreamJoinErrors.analysis(
        "STREAMJOIN_TEMPORAL.CONSTANT",
        "join" -> "temporal",
        "conjunct" -> conjunct.sql,
        "column" -> name,
        "with" -> versions(names),
        "without" -> versions(names.filterNot(_ == name)),
        "where" -> clause.where
      )
    }

  /** The key: all right columns that equal a left expression. */
  private def keysOf(join: Join): Seq[Attribute] =
    join.condition.toSeq.flatMap(PredicateParts.conjuncts).flatMap {
      case Equality(a, b) if isOfLeft(join, b) => columnOf(join.right, a)
      case Equality(a, b) if isOfLeft(join, a) => columnOf(join.right, b)
      case _ => None
    }

  private def isOfLeft(join: Join, expression: Expression): Boolean =
    expression.references.nonEmpty && expression.references.subsetOf(join.left.outputSet)

  private def columnOf(input: LogicalPlan, expression: Expression): Option[Attribute] = expression match {
    case column: Attribute if input.outputSet.contains(column) => Some(column)
    case cast: Cast => columnOf(input, cast.child)
    case _ => None
  }

  private def columnOrField(input: LogicalPlan, expression: Expression): Option[Expression] =
    expression match {
      case cast: Cast => columnOrField(input, cast.child)
      case Collate(child, _) => columnOrField(input, child)
      case field: GetStructField => columnOrField(input, field.child).map(_ => field)
      case column => columnOf(input, column)
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
        throw limits.error("STREAMJOIN_CLAUSE.ASOF_LIMITS")
      s"${limits.greatest} microseconds"
    }
    val sparks =
      if (join.left.isStreaming && join.right.isStreaming) None else SparksAsOfJoin.of(join, condition)
    sparks.foreach { _ =>
      within.foreach(limits => throw limits.error("STREAMJOIN_CLAUSE.ASOF_LIMIT_IN_BATCH"))
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
      case Some(_) =>
        throw clause.error("STREAMJOIN_CLAUSE.FIELD", "column" -> name.mkString("."))
      case None => throw unknown(name, of, clause)
    }

  private def unknown(name: Seq[String], of: LogicalPlan, clause: Clause): AnalysisException =
    clause.error(
      "STREAMJOIN_CLAUSE.UNKNOWN_COLUMN",
      "column" -> name.mkString("."),
      "columns" -> of.output.map(_.qualifiedName).mkString(", ")
    )
}
