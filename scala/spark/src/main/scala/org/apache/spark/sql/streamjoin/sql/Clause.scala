package org.apache.spark.sql.streamjoin.sql

import org.apache.spark.sql.catalyst.expressions.{Attribute, Expression}
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, UnaryNode}

import streamjoin.core.JoinWindow

/** A clause of ours, as it stands in a query. */
sealed private[sql] trait Clause {

  /** Its first words. */
  def name: String

  /** Its place in the query, as Spark shows it below an error. */
  def where: String

  override def toString: String = name
}

/** The limits of `right.time - left.time` in microseconds, both included. */
final private[sql] case class Within(least: Long, greatest: Long, where: String) extends Clause {
  override def name: String = "WITHIN"
}

/** A sliding window over the input that it follows. */
final private[sql] case class Over(window: JoinWindow, where: String) extends Clause {
  override def name: String = "OVER"
}

/**
 * The input that it follows has versions; those count that are valid at a time of the other input.
 */
final private[sql] case class AsOfTime(column: Seq[String], where: String) extends Clause {
  override def name: String = "FOR SYSTEM_TIME AS OF"
}

/** Of the input that it follows the closest row counts; the condition compares the times. */
final private[sql] case class MatchCondition(condition: Expression, where: String) extends Clause {
  override def name: String = "ASOF JOIN"
}

/** The input of a join with the clauses after it, as the parser has it. */
final private[sql] case class InputWithClauses(clauses: Seq[Clause], child: LogicalPlan) extends UnaryNode {
  override def output: Seq[Attribute] = child.output

  override lazy val resolved: Boolean = false

  override protected def withNewChildInternal(newChild: LogicalPlan): InputWithClauses =
    copy(child = newChild)
}

/**
 * A join with the clauses of its inputs. The join is Spark's, so all of Spark's rules know it. It
 * is not resolved before its clauses are, for they may add a column to what `*` stands for above
 * it.
 */
final private[sql] case class JoinWithClauses(left: Seq[Clause], right: Seq[Clause], child: LogicalPlan)
    extends UnaryNode {
  override def output: Seq[Attribute] = child.output

  override lazy val resolved: Boolean = false

  override protected def withNewChildInternal(newChild: LogicalPlan): JoinWithClauses =
    copy(child = newChild)
}
