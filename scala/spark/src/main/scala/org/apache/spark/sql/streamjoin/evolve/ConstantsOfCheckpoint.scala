package org.apache.spark.sql.streamjoin.evolve

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.streamjoin.analysis.{ConstantBounds, OptimizedQuery}
import org.apache.spark.sql.streamjoin.checkpoint.{CommittedBatches, OperatorLog}
import org.apache.spark.sql.streamjoin.watermark.WatermarkKeys

import streamjoin.core.Side

/**
 * Keeps the layout of a checkpoint in which a constant bound decides alone when rows leave: rows in
 * state have no value to leave by. An earlier version wrote it, or the query had no such value when
 * it began. It only reads.
 */
private[streamjoin] object ConstantsOfCheckpoint {

  /** The query as it continues the checkpoint: the same one if nothing has to be kept. */
  def keep(
      session: SparkSession,
      checkpoint: Path,
      hadoopConf: Configuration,
      query: LogicalPlan,
      optimized: LogicalPlan
  ): LogicalPlan =
    if (!OptimizedQuery.nodesIn(optimized).exists(node => byValues(node.description.all).nonEmpty)) query
    else {
      val operators = QueryOperators.ofNext(
        optimized,
        WatermarkKeys.of(query),
        new OperatorLog(session, checkpoint),
        CommittedBatches.next(checkpoint, hadoopConf),
        planned = false
      )
      val inputs = for {
        operator <- operators.kept
        recorded <- operators.recorded.get(operator.ordinal)
        sides = byValues(operator.description.properties) -- byValues(recorded.properties)
        if sides.nonEmpty
      } yield operator.node.ordinal -> sides
      if (inputs.isEmpty) query else ConstantBounds.mark(query, inputs.toMap)
    }

  /** The inputs whose rows leave by values that they carry. */
  private def byValues(properties: Map[String, String]): Set[Side] =
    properties.get(RecordedInterval.CarriedBounds).fold(Set.empty[Side]) { recorded =>
      Side.both.filter(side => s"; $recorded".contains(s"; ${side.name}: ")).toSet
    }
}
