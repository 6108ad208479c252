package org.apache.spark.sql.streamjoin.analysis

import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.streamjoin.plans.StatefulNode
import org.apache.spark.sql.streamjoin.watermark.ColumnWatermark

/**
 * The operator where a column loses its watermark: neither its bounds nor a condition below ties
 * the column to one whose watermark moves, so a buffered row may have any time in it.
 */
final private[streamjoin] case class UndefinedWatermark(node: StatefulNode, key: Int) {

  /** @param waiting what awaits the watermark */
  def refused(waiting: String): AnalysisException = node.undefinedWatermark(key, waiting)
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
