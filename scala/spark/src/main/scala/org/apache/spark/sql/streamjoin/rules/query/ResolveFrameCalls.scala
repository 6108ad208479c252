package org.apache.spark.sql.streamjoin.rules.query

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, Project}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.sql.streamjoin.analysis.CommonTables
import org.apache.spark.sql.streamjoin.front.functions.{FrameCall, FrameFunction}

/**
 * Replaces a [[FrameCall]] with the plan that its function builds from the child. Spark calls the
 * rule while a query is analyzed. It acts once the child and the columns are resolved.
 */
final private[streamjoin] case class ResolveFrameCalls(session: SparkSession) extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan =
    if (!plan.exists(_.isInstanceOf[FrameCall])) plan
    else {
      val tables = CommonTables.of(plan)
      val replaced = plan.resolveOperatorsUp {
        case call: FrameCall if call.child.resolved && call.columns.forall(_.resolved) =>
          replace(call, tables)
      }
      if (tables.isEmpty) replaced else CommonTables.withoutUnused(replaced)
    }

  private def replace(call: FrameCall, tables: CommonTables): LogicalPlan = {
    val child = if (call.function.inlines) tables.inlined(call.child) else call.child
    val made = call.function.replace(
      FrameFunction.Call(session.asInstanceOf[ClassicSession], child, call.arguments, call.columns)
    )
    // A client refers to columns of the result by the number of its plan, which is a tag of the
    // call. `copyTagsFrom` cannot be used, because it ignores nodes that already have tags.
    call.getTagValue(LogicalPlan.PLAN_ID_TAG).fold(made) { number =>
      val result = if (made.getTagValue(LogicalPlan.PLAN_ID_TAG).isEmpty) made else Project(made.output, made)
      result.setTagValue(LogicalPlan.PLAN_ID_TAG, number)
      result
    }
  }
}
