package org.apache.spark.sql.streamjoin.joins.interval

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import org.apache.spark.sql.catalyst.expressions.{Attribute, Expression, NamedExpression}
import org.apache.spark.sql.catalyst.plans.logical.EventTimeWatermark
import org.apache.spark.sql.catalyst.plans.physical.{Distribution, Partitioning}
import org.apache.spark.sql.catalyst.util.DateTimeUtils.millisToMicros
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.streaming.operators.stateful.join.{
  StreamingSymmetricHashJoinExec,
  StreamingSymmetricHashJoinHelper
}
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streamjoin.batch.BatchBinding

import streamjoin.core.Side

/**
 * Our join in the place of one of Spark's, while a batch is planned. To Spark it is its own join:
 * it gets the next id, has the name that the checkpoint knows, and in the batch of the take-over it
 * computes up to which time Spark's own join has evicted and emitted. Once the plan is complete,
 * [[replacement]] takes its place. It never runs.
 *
 * {{{
 *   strategy              StateOpIdRule  check with the checkpoint  watermarks  last rule
 *   TakenOverJoinExec --> operator 1 --> symmetricHashJoin 1 -----> limits ---> IntervalJoinExec
 * }}}
 */
private[interval] trait TakenOverJoin extends StreamingSymmetricHashJoinExec {

  /** Our join, with the inputs that it had when it was planned. */
  protected def planned: IntervalJoinExec

  private def batch: BatchBinding = planned.binding.get

  private def isTakenOver: Boolean = batch.states.isTakenOver(planned.ordinal)

  private lazy val own: IntervalJoinExec = planned.copy(left = left, right = right)

  final override def output: Seq[Attribute] = own.output

  final override def requiredChildDistribution: Seq[Distribution] = own.requiredChildDistribution

  final override def outputPartitioning: Partitioning = own.outputPartitioning

  // The state is ours, and Spark's own stays what it is, with its schema.

  final override def validateAndMaybeEvolveStateSchema(
      hadoopConf: Configuration,
      batchId: Long,
      stateSchemaVersion: Int
  ): List[StateSchemaValidationResult] = Nil

  final override def stateSchemaList(
      stateSchemaValidationResults: List[StateSchemaValidationResult],
      oldMetadata: Option[OperatorStateMetadata]
  ): List[List[String]] = Nil

  final override def operatorStateMetadata(stateSchemaPaths: List[List[String]]): OperatorStateMetadata =
    if (operatorStateMetadataVersion == 1) super.operatorStateMetadata(stateSchemaPaths)
    else
      OperatorStateMetadataReader
        .createReader(
          new Path(getStateInfo.checkpointLocation, getStateInfo.operatorId.toString),
          session.sessionState.newHadoopConf(),
          operatorStateMetadataVersion,
          batch.batch - 1
        )
        .read()
        .get

  // Watermarks.

  private var asked = false

  /**
   * For the batch before the take-over, that of Spark's own join: the operators above have emitted
   * up to it. It stays the least that they receive.
   */
  final override def produceOutputWatermark(inputWatermarkMs: Long): Option[Long] = {
    val ofOurs = own.produceOutputWatermark(inputWatermarkMs)
    if (isTakenOver && batch.asksForPrevious && !asked) {
      asked = true
      val ofSparks = super.produceOutputWatermark(inputWatermarkMs)
      ofSparks.foreach(raiseFloor)
      ofSparks
    } else ofOurs
  }

  private def raiseFloor(millis: Long): Unit = batch.raiseFloor(planned.ordinal, millisToMicros(millis))

  /** The join that runs. */
  final def replacement: SparkPlan = {
    assert(
      getStateInfo.operatorId == planned.stateInfo.get.operatorId,
      s"Spark has numbered a join ${getStateInfo.operatorId}, which was ${planned.stateInfo.get.operatorId}"
    )
    if (!isTakenOver) own
    else {
      // A batch that Spark's own join has run before in this run: it has been asked already.
      if (!batch.isFirstOfRun)
        eventTimeWatermarkForEviction.flatMap(ms => super.produceOutputWatermark(ms)).foreach(raiseFloor)
      val received = if (allowsMultiple) eventTimeWatermarkForLateEvents else Some(batch.sparkLate)
      own.copy(sparks = received.map(millis => SparksProgress(millis, limits(millis))))
    }
  }

  private def allowsMultiple: Boolean = conf.getConf(SQLConf.STATEFUL_OPERATOR_ALLOW_MULTIPLE)

  /** What Spark's own join has evicted in the batch before, by the watermark that it received. */
  private def limits(received: Long): Map[Side, SparksLimit] = {
    val (left, right) = StreamingSymmetricHashJoinHelper.getStateWatermark(
      this.left.output,
      this.right.output,
      leftKeys,
      rightKeys,
      condition.full,
      Some(received),
      !allowsMultiple
    )
    val inputs = Map[Side, (Option[Long], SparkPlan, Seq[Expression])](
      Side.Left -> (left, this.left, leftKeys),
      Side.Right -> (right, this.right, rightKeys)
    )
    for {
      (side, (Some(millis), input, keys)) <- inputs
      time <- keyWithTime.fold(input.output.find(isMarked))(at => column(keys(at)))
    } yield side -> SparksLimit(time, millis)
  }

  /** As in `StreamingSymmetricHashJoinHelper.findJoinKeyOrdinalForWatermark`. */
  private def keyWithTime: Option[Int] =
    Seq(leftKeys, rightKeys).map(_.indexWhere(isMarked)).find(_ >= 0)

  private def isMarked(key: Expression): Boolean = key match {
    case named: NamedExpression => named.metadata.contains(EventTimeWatermark.delayKey)
    case _ => false
  }

  private def column(key: Expression): Option[Attribute] = key match {
    case attribute: Attribute => Some(attribute)
    case _ => None
  }
}
