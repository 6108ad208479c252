package org.apache.spark.sql.streamjoin.analysis

import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.streamjoin.plans.StatefulNode

/** Finds the operators of one kind in an optimized plan. */
private[streamjoin] trait Recognizer {

  /** Whether this kind runs or rejects the operator. */
  def isMine(operator: LogicalPlan): Boolean

  /** @param ordinal ordinal of the new node */
  def recognize(operator: LogicalPlan, ordinal: Int, lineage: WatermarkLineage): Recognition
}

/** A recognizer's verdict on an operator. */
sealed private[streamjoin] trait Recognition

private[streamjoin] object Recognition {
  case object NotMine extends Recognition

  /** @param what short name of the operator, for EXPLAIN */
  final case class Rejected(what: String, error: AnalysisException) extends Recognition
  final case class Found(node: StatefulNode) extends Recognition
}
