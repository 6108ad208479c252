package org.apache.spark.sql.streamjoin.observe.collect

import org.apache.spark.sql.catalyst.streaming.InternalOutputModes
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.streaming.StreamingQueryPlanTraverseHelper
import org.apache.spark.sql.execution.streaming.operators.stateful.{
  SessionWindowStateStoreSaveExec,
  StateStoreSaveExec,
  StateStoreWriter
}
import org.apache.spark.sql.streamjoin.base.OwnExec

/**
 * A Spark aggregation above one of our operators, after a batch. It emits a group once the
 * watermark is later than the end of its window.
 *
 * @param groups
 *   number of groups that it keeps
 * @param emitted
 *   number of groups that it emitted in the batch
 * @param watermark
 *   in milliseconds
 */
final private[streamjoin] case class Waiting(groups: Long, emitted: Long, watermark: Option[Long])

private[streamjoin] object Waiting {

  /** The aggregation that is the next stateful operator above, if it emits each group once. */
  def above(executed: SparkPlan, below: OwnExec): Option[Waiting] =
    StreamingQueryPlanTraverseHelper
      .collectFromUnfoldedPlan(executed) {
        case save: StateStoreSaveExec if save.outputMode.contains(InternalOutputModes.Append) =>
          (save: StateStoreWriter, save.eventTimeWatermarkForEviction)
        case save: SessionWindowStateStoreSaveExec if save.outputMode.contains(InternalOutputModes.Append) =>
          (save: StateStoreWriter, save.eventTimeWatermarkForEviction)
      }
      .collectFirst {
        case (save, watermark) if save.children.flatMap(nearest).exists(_ eq below) =>
          Waiting(
            save.longMetric("numTotalStateRows").value,
            save.longMetric("numOutputRows").value,
            watermark
          )
      }

  private def nearest(plan: SparkPlan): Seq[OwnExec] = plan match {
    case ours: OwnExec with StateStoreWriter => Seq(ours)
    case other => other.children.flatMap(nearest)
  }
}
