package org.apache.spark.sql.streamjoin.analysis

import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.streamjoin.plans.StatefulNode
import org.apache.spark.sql.streamjoin.watermark.ColumnWatermark

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
  case object NotApplicable extends Recognition

  /** @param what short name of the operator, for EXPLAIN */
  final case class Rejected(what: String, error: AnalysisException) extends Recognition
  final case class Found(node: StatefulNode) extends Recognition
}

/**
 * The operator where a column loses its watermark: neither its bounds nor a condition below ties
 * the column to one whose watermark moves, so a buffered row may have any time in it.
 */
final private[streamjoin] case class UndefinedWatermark(node: StatefulNode, key: Int) {

  /** @param waiting the operation that awaits the watermark */
  def rejected(waiting: String): AnalysisException = node.undefinedWatermark(key, waiting)
}

private[streamjoin] object UndefinedWatermark {

  /** The lowest operator of a plan at which the watermark becomes undefined. */
  def of(watermark: ColumnWatermark, plan: LogicalPlan): Option[UndefinedWatermark] =
    ColumnWatermark.outputs(watermark).find(!_.isDefined).flatMap { output =>
      of(output.columns(output.key), plan).orElse(
        plan
          .collectFirst { case node: StatefulNode if node.ordinal == output.ordinal => node }
          .map(UndefinedWatermark(_, output.key))
      )
    }
}
