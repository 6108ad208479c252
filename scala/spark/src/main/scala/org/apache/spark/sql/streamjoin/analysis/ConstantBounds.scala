package org.apache.spark.sql.streamjoin.analysis

import org.apache.spark.sql.catalyst.plans.logical.{Join, LogicalPlan}
import org.apache.spark.sql.catalyst.trees.TreeNodeTag
import org.apache.spark.sql.streamjoin.base.AnalyzedPlan

import streamjoin.core.Side

/**
 * The inputs of joins whose rows leave by constant bounds alone, although the condition also
 * compares with a value that each row carries: their checkpoint began so, and the rows in state
 * have that layout. `start()` marks the query, and recognition reads the mark.
 */
private[streamjoin] object ConstantBounds {

  /** By the position of a join among our operators, from the inputs up. */
  type Inputs = Map[Int, Set[Side]]

  private val OfQuery = TreeNodeTag[Inputs]("streamjoin.constantBounds")
  private val OfJoin = TreeNodeTag[Set[Side]]("streamjoin.constantBoundsOfJoin")

  /** The query with the mark on its leaves: the optimizer keeps their tags. */
  def mark(query: LogicalPlan, inputs: Inputs): LogicalPlan = {
    // A DataFrame may be started several times.
    val own = query.clone()
    own.collectLeaves().foreach(_.setTagValue(OfQuery, inputs))
    AnalyzedPlan.rewrite(own)(PartialFunction.empty)
  }

  /** The mark of a query. */
  def in(query: LogicalPlan): Inputs =
    query.collectLeaves().flatMap(_.getTagValue(OfQuery)).headOption.getOrElse(Map.empty)

  /** An operator to recognize, with its part of the mark. */
  def marked(operator: LogicalPlan, inputs: Set[Side]): LogicalPlan = operator match {
    case join: Join if inputs.nonEmpty =>
      val own = join.copy()
      own.copyTagsFrom(join)
      own.setTagValue(OfJoin, inputs)
      own
    case other => other
  }

  def of(join: Join): Set[Side] = join.getTagValue(OfJoin).getOrElse(Set.empty)
}
