package org.apache.spark.sql.streamjoin.rules
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.streaming.WriteToStream
import org.apache.spark.sql.streamjoin.base.AnalyzedPlan
import org.apache.spark.sql.streamjoin.plans.HiddenJoin

/**
 * `start()`: Spark's checker has seen the query, so that hidden joins can be joins again, for all
 * of Spark's rules.
 */
private[streamjoin] object RestoreJoins extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan match {
    case write: WriteToStream if write.inputQuery.exists(_.isInstanceOf[HiddenJoin]) =>
      write.copy(inputQuery = AnalyzedPlan.rewrite(write.inputQuery) { case hidden: HiddenJoin =>
        hidden.join
      })
    case other => other
  }
}
