package org.apache.spark.sql.streamjoin.registry

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.streamjoin.analysis.{Recognition, WatermarkLineage}
import org.apache.spark.sql.streamjoin.batch.BatchBinding
import org.apache.spark.sql.streamjoin.joins.interval.IntervalJoinKind
import org.apache.spark.sql.streamjoin.joins.order.OrderKind
import org.apache.spark.sql.streamjoin.joins.table.RematchKind
import org.apache.spark.sql.streamjoin.joins.temporal.TemporalKind
import org.apache.spark.sql.streamjoin.operator.OperatorKind
import org.apache.spark.sql.streamjoin.plans.StatefulNode

/** All kinds of operators. The first kind that matches wins. */
private[streamjoin] object OperatorKinds {
  private val kinds: Seq[OperatorKind] = Seq(IntervalJoinKind, OrderKind, TemporalKind, RematchKind)
  private val recognizers = kinds.map(_.recognizer)

  /** Whether a query has operators that we run or reject. */
  def areIn(query: LogicalPlan): Boolean = query.exists(isOurs)

  def isOurs(operator: LogicalPlan): Boolean = recognizers.exists(_.isMine(operator))

  def recognize(operator: LogicalPlan, ordinal: Int, lineage: WatermarkLineage): Recognition =
    recognizers.iterator
      .map(_.recognize(operator, ordinal, lineage))
      .find(_ != Recognition.NotApplicable)
      .getOrElse(Recognition.NotApplicable)

  /** @param name name in checkpoints; the result is none if a newer version wrote it */
  def named(name: String): Option[OperatorKind] = kinds.find(_.name == name)

  def plan(
      node: StatefulNode,
      binding: Option[BatchBinding],
      planLater: LogicalPlan => SparkPlan
  ): SparkPlan =
    kinds.flatMap(_.plan(binding, planLater).lift(node)).headOption.getOrElse {
      throw new IllegalStateException(s"no kind of operator plans ${node.kind}")
    }
}
