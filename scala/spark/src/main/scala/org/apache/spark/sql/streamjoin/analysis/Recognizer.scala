package org.apache.spark.sql.streamjoin.analysis

import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.streamjoin.plans.StatefulNode

/** Finds the operators of one kind in an optimized plan. */
private[streamjoin] trait Recognizer {

  /** Whether an operator is for this kind to run, or to refuse. */
  def isMine(operator: LogicalPlan): Boolean

  /**
   * @param ordinal
   *   the number that the node will have
   */
  def recognize(operator: LogicalPlan, ordinal: Int, lineage: WatermarkLineage): Recognition
}

/** What a recognizer says of an operator. */
sealed private[streamjoin] trait Recognition

private[streamjoin] object Recognition {
  case object NotMine extends Recognition

  /**
   * @param what
   *   the operator in a word, for EXPLAIN
   */
  final case class Rejected(what: String, error: AnalysisException) extends Recognition
  final case class Found(node: StatefulNode) extends Recognition
}
