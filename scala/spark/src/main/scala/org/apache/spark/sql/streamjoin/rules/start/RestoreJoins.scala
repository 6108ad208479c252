package org.apache.spark.sql.streamjoin.rules.start
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.streaming.WriteToStream
import org.apache.spark.sql.streamjoin.base.AnalyzedPlan
import org.apache.spark.sql.streamjoin.plans.UncheckedStreamJoin

/**
 * Converts each `UncheckedStreamJoin` back to a `Join`. Spark calls the rule at `start()`, at the
 * end of analysis: by then its checker has run, and all other rules must see joins.
 */
private[streamjoin] object RestoreJoins extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan match {
    case write: WriteToStream if write.inputQuery.exists(_.isInstanceOf[UncheckedStreamJoin]) =>
      write.copy(inputQuery = AnalyzedPlan.rewrite(write.inputQuery) { case hidden: UncheckedStreamJoin =>
        hidden.join
      })
    case other => other
  }
}
