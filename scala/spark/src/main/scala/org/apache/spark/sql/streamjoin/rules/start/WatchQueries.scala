package org.apache.spark.sql.streamjoin.rules.start

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.streaming.WriteToStream
import org.apache.spark.sql.streamjoin.observe.publish.FiguresListener

/** start(): publishes the figures of the query's batches, see [[FiguresListener]]. */
final private[streamjoin] case class WatchQueries(session: SparkSession) extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = {
    if (plan.isInstanceOf[WriteToStream]) FiguresListener.listen(session)
    plan
  }
}
