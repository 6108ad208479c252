package org.apache.spark.sql.streamjoin.operator

import java.util.UUID

import org.apache.hadoop.conf.Configuration

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, SortOrder}
import org.apache.spark.sql.catalyst.plans.physical.Partitioning
import org.apache.spark.sql.execution.streaming.operators.stateful.{
  StateStoreWriter,
  StatefulOperatorStateInfo
}
import org.apache.spark.sql.execution.streaming.state.{OperatorStateMetadata, StateSchemaValidationResult}
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}
import org.apache.spark.sql.streamjoin.base.OwnExec
import org.apache.spark.sql.streamjoin.checkpoint.SparksOperator

/**
 * Stands for an operator that the query has no longer, while the first batch of a run is planned:
 * Spark finds in the plan what it has recorded, and the state of the operator stays where it is.
 * Once the plan is complete, its child takes its place. It never runs.
 */
final private[streamjoin] case class RemovedOperatorExec(operator: SparksOperator, child: SparkPlan)
    extends UnaryExecNode
    with StateStoreWriter
    with OwnExec {

  override def output: Seq[Attribute] = child.output
  override def outputPartitioning: Partitioning = child.outputPartitioning
  override def outputOrdering: Seq[SortOrder] = child.outputOrdering

  override def shortName: String = operator.name

  override def stateInfo: Option[StatefulOperatorStateInfo] = Some(
    // Spark asks for the id alone.
    StatefulOperatorStateInfo("", UUID.randomUUID(), operator.id, 0L, operator.partitions, None)
  )

  /** The watermark passes. */
  override def produceOutputWatermark(inputWatermarkMs: Long): Option[Long] = Some(inputWatermarkMs)

  override def validateAndMaybeEvolveStateSchema(
      hadoopConf: Configuration,
      batchId: Long,
      stateSchemaVersion: Int
  ): List[StateSchemaValidationResult] = Nil

  override def stateSchemaList(
      stateSchemaValidationResults: List[StateSchemaValidationResult],
      oldMetadata: Option[OperatorStateMetadata]
  ): List[List[String]] = Nil

  override protected def doExecute(): RDD[InternalRow] =
    throw new IllegalStateException(s"operator ${operator.id} was removed")

  override protected def withNewChildInternal(newChild: SparkPlan): RemovedOperatorExec =
    copy(child = newChild)
}
