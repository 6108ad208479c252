package org.apache.spark.sql.streamjoin.rules.start

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.streaming.WriteToStream
import org.apache.spark.sql.streamjoin.upsert.UpsertSink

/** `start()` of a query that upserts into a target: checks its columns. */
final private[streamjoin] case class StartUpsert(session: SparkSession) extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = {
    plan match {
      // A sink of Spark's V1 API gets no columns when it is created.
      case write: WriteToStream =>
        write.sink match {
          case sink: UpsertSink =>
            sink.check(session, write.inputQuery.schema, write.resolvedCheckpointLocation)
          case _ =>
        }
      case _ =>
    }
    plan
  }
}
