package org.apache.spark.sql.streamjoin.plans

import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.catalyst.expressions.{Attribute, Expression}
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, UnaryNode}
import org.apache.spark.sql.streamjoin.base.StreamJoinErrors

import streamjoin.core.JoinWindow

/** One of our clauses, as written in a query. */
sealed private[streamjoin] trait Clause {

  /** Its first keywords. */
  def name: String

  /** Its position in the query, as Spark shows it below an error. */
  def where: String

  def error(condition: String, parameters: (String, String)*): AnalysisException =
    StreamJoinErrors.analysis(condition, parameters ++ Seq("clause" -> name, "where" -> where): _*)

  override def toString: String = name
}

/** Inclusive limits of `right.time - left.time`, in microseconds. */
final private[streamjoin] case class Within(least: Long, greatest: Long, where: String) extends Clause {
  override def name: String = "WITHIN"
}

/** A sliding window over the input before it. */
final private[streamjoin] case class Over(window: JoinWindow, where: String) extends Clause {
  override def name: String = "OVER"
}

/** The input before it has versions; the one valid at a time of the other input matches. */
final private[streamjoin] case class AsOfTime(column: Seq[String], where: String) extends Clause {
  override def name: String = "FOR SYSTEM_TIME AS OF"
}

/** The closest row of the input before it matches; the condition compares the times. */
final private[streamjoin] case class MatchCondition(condition: Expression, where: String) extends Clause {
  override def name: String = "ASOF JOIN"
}

/** The input of a join with the clauses after it, as parsed. */
final private[streamjoin] case class InputWithClauses(clauses: Seq[Clause], child: LogicalPlan)
    extends UnaryNode {
  override def output: Seq[Attribute] = child.output

  override lazy val resolved: Boolean = false

  override protected def withNewChildInternal(newChild: LogicalPlan): InputWithClauses =
    copy(child = newChild)
}

/**
 * A join with the clauses of its inputs. It wraps Spark's own join, so all of Spark's rules know
 * it. It stays unresolved until its clauses are resolved, because these may add a column to a `*`
 * above it.
 */
final private[streamjoin] case class JoinWithClauses(
    left: Seq[Clause],
    right: Seq[Clause],
    child: LogicalPlan
) extends UnaryNode {
  override def output: Seq[Attribute] = child.output

  override lazy val resolved: Boolean = false

  override protected def withNewChildInternal(newChild: LogicalPlan): JoinWithClauses =
    copy(child = newChild)
}
