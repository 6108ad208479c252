package org.apache.spark.sql.streamjoin.base

import org.apache.spark.sql.catalyst.plans.logical.{AnalysisHelper, LogicalPlan}

/** Rewrites an analyzed plan; the result does not need to be resolved again. */
private[streamjoin] object AnalyzedPlan {
  def rewrite(query: LogicalPlan)(rule: PartialFunction[LogicalPlan, LogicalPlan]): LogicalPlan =
    AnalysisHelper.allowInvokingTransformsInAnalyzer {
      val rewritten = query.transformUp(rule)
      rewritten.setAnalyzed()
      rewritten
    }
}
