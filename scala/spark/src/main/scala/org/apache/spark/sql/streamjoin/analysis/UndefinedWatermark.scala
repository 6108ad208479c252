package org.apache.spark.sql.streamjoin.analysis

import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.streamjoin.plans.StatefulNode
import org.apache.spark.sql.streamjoin.watermark.ColumnWatermark

/**
 * Where a column loses its watermark: neither a bound of the operator nor a condition below it ties
 * the column to one whose watermark moves, so a row that is kept there may have any time in it.
 */
final private[streamjoin] case class UndefinedWatermark(node: StatefulNode, key: Int) {

  /** @param waiting who awaits the watermark */
  def refused(waiting: String): AnalysisException = node.undefinedWatermark(key, waiting)
}

private[streamjoin] object UndefinedWatermark {

  /** The lowest operator of a plan from which on a watermark is undefined. */
  def of(watermark: ColumnWatermark, plan: LogicalPlan): Option[UndefinedWatermark] =
    ColumnWatermark.outputs(watermark).find(!_.isDefined).flatMap { output =>
      of(output.columns(output.key), plan).orElse(
        plan
          .collectFirst { case node: StatefulNode if node.ordinal == output.ordinal => node }
          .map(UndefinedWatermark(_, output.key))
      )
    }
}
