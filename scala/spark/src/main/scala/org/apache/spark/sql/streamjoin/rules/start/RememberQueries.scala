package org.apache.spark.sql.streamjoin.rules.start

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.streaming.WriteToStream
import org.apache.spark.sql.streamjoin.base.QueryOwner
import org.apache.spark.sql.streamjoin.observe.read.StartedQueries

/**
 * Remembers the checkpoint of each query, for its late rows. Spark calls the rule at `start()`,
 * after its analyzer has resolved the checkpoint's location.
 */
final private[streamjoin] case class RememberQueries(session: SparkSession) extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = {
    plan match {
      case write: WriteToStream if !write.deleteCheckpointOnStop =>
        StartedQueries.remember(
          QueryOwner.id(session),
          write.resolvedCheckpointLocation,
          Option(write.name)
        )
      case _ =>
    }
    plan
  }
}
