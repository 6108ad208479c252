package org.apache.spark.sql.streamjoin.rules.query

import org.apache.spark.sql.catalyst.analysis.UnresolvedTableValuedFunction
import org.apache.spark.sql.catalyst.plans.logical.{LocalRelation, LogicalPlan}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.streamjoin.base.{BuiltJar, TableFunction}
import org.apache.spark.sql.types.{StringType, StructType}
import org.apache.spark.sql.{Row, SparkSession}

/**
 * Replaces `sj_version()` with the versions of the jar. Spark calls the rule while a query is
 * analyzed, before it looks up the function.
 */
final private[streamjoin] case class ResolveVersionFunction(session: SparkSession) extends Rule[LogicalPlan] {
  import ResolveVersionFunction._

  override def apply(plan: LogicalPlan): LogicalPlan = plan.resolveOperatorsDown {
    case call: UnresolvedTableValuedFunction if Function.isCalledBy(call, session) =>
      if (call.functionArgs.nonEmpty) throw Function.refused("takes no arguments", call.origin)
      val row = Row(BuiltJar.version, BuiltJar.sparkVersion)
      LocalRelation.fromExternalRows(DataTypeUtils.toAttributes(Schema), Seq(row))
  }
}

private[streamjoin] object ResolveVersionFunction {
  private val Function = TableFunction("sj_version", "SELECT * FROM sj_version()")

  private val Schema = new StructType()
    .add("version", StringType, nullable = false)
    .add("spark_version", StringType, nullable = false)
}
