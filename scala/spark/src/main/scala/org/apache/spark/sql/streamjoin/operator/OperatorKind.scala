package org.apache.spark.sql.streamjoin.operator

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.streamjoin.analysis.Recognizer
import org.apache.spark.sql.streamjoin.batch.BatchBinding
import org.apache.spark.sql.streamjoin.checkpoint.{Description, InputOutline}
import org.apache.spark.sql.{Column, SparkSession}

/**
 * A kind of stateful operator: everything that the rest of the code needs to know about it. Its
 * object is in the folder of the operator, and `registry.OperatorKinds` lists it.
 */
private[streamjoin] trait OperatorKind {
  import OperatorKind.Planned

  /** Its name in checkpoints: `interval_join`. */
  def name: String

  /** Its operator in EXPLAIN: `StreamIntervalJoin`; in the progress, `streamIntervalJoin`. */
  def nodeName: String

  final def progressName: String = s"${nodeName.head.toLower}${nodeName.tail}"

  def recognizer: Recognizer

  /**
   * The physical operator of a node of this kind, with the operators that have to run above it.
   *
   * @param binding
   *   the batch, or none if the plan is only explained
   * @param planLater
   *   plans an input
   */
  def plan(binding: Option[BatchBinding], planLater: LogicalPlan => SparkPlan): Planned

  /**
   * The answer of `sj.why` for a row of an input that is no longer in state: why it left.
   *
   * @param matchedIn
   *   the batch of the row's first match, or null
   */
  def whyLeft(input: InputOutline, matchedIn: Column): Column

  /** Whether its condition bounds the distance between the times of a pair. */
  def boundsDistances: Boolean = false

  /** Whether it also looks up an arrangement, which the checkpoint describes separately. */
  def looksUp: Boolean = false
}

private[streamjoin] object OperatorKind {
  type Planned = PartialFunction[LogicalPlan, SparkPlan]
}

/**
 * A kind of join with arrangements that keeps no state of its own. Its object is in the folder of
 * the join, and `registry.ArrangedJoins` lists it.
 */
private[streamjoin] trait ArrangedJoinKind {

  /** Whether an analyzed plan is such a join. */
  def isMine(plan: LogicalPlan): Boolean

  /**
   * The properties that must not change while a checkpoint is in use. None if the join turns out to
   * be invalid, which raises an error when it is planned.
   *
   * @param join
   *   the join as written
   * @param query
   *   the query that contains it
   */
  def describe(join: LogicalPlan, query: LogicalPlan): Option[Description]

  /** @param planLater plans an input */
  def plan(join: LogicalPlan, session: SparkSession, planLater: LogicalPlan => SparkPlan): SparkPlan
}
