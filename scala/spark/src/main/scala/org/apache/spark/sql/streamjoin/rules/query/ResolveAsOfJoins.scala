package org.apache.spark.sql.streamjoin.rules.query

import org.apache.spark.sql.catalyst.plans.logical.{AsOfJoin, LogicalPlan}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.trees.TreePattern.AS_OF_JOIN
import org.apache.spark.sql.streamjoin.base.StreamJoinConf
import org.apache.spark.sql.streamjoin.joins.temporal.{AsOfJoins, SparksAsOfJoin}

/**
 * Replaces `df._joinAsOf` of two streams, and on Spark 4.3 its `ASOF JOIN`, with our as-of join; if
 * an input is a batch, the join stays Spark's. Spark calls the rule at the end of analysis, before
 * its optimizer converts the join to an aggregation without groups, which fails in the first batch.
 */
private[streamjoin] object ResolveAsOfJoins extends Rule[LogicalPlan] {

  override def apply(plan: LogicalPlan): LogicalPlan =
    plan.resolveOperatorsWithPruning(_.containsPattern(AS_OF_JOIN)) {
      case join: AsOfJoin if join.resolved && join.children.forall(_.isStreaming) && StreamJoinConf.enabled =>
        new AsOfJoins(
          if (SparksAsOfJoin.condition(join).isDefined) "ASOF JOIN" else "df._joinAsOf",
          "as-of"
        ).asOf(join)
    }
}
