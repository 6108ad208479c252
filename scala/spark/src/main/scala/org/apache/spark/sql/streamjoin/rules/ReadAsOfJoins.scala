package org.apache.spark.sql.streamjoin.rules

import org.apache.spark.sql.catalyst.plans.logical.{AsOfJoin, LogicalPlan}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.trees.TreePattern.AS_OF_JOIN
import org.apache.spark.sql.streamjoin.analysis.AsOfJoins
import org.apache.spark.sql.streamjoin.base.StreamJoinConf

/**
 * `df._joinAsOf` of two streams. Spark's optimizer makes an aggregation without groups of it, which
 * fails in the first batch; of a stream and a batch, or of two batches, it is Spark's.
 */
private[streamjoin] object ReadAsOfJoins extends Rule[LogicalPlan] {
  private val joins = new AsOfJoins("df._joinAsOf", "as-of")

  override def apply(plan: LogicalPlan): LogicalPlan =
    plan.resolveOperatorsWithPruning(_.containsPattern(AS_OF_JOIN)) {
      case join: AsOfJoin if join.resolved && join.children.forall(_.isStreaming) && StreamJoinConf.enabled =>
        joins.asOf(join)
    }
}
