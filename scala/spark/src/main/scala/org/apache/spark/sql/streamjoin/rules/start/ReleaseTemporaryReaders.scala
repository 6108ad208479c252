package org.apache.spark.sql.streamjoin.rules.start

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.streaming.WriteToStream
import org.apache.spark.sql.streamjoin.arrangement.storage.TemporaryReaders
import org.apache.spark.sql.streamjoin.base.SessionListeners

/**
 * start(): releases the leases of a temporary checkpoint when the query ends, see
 * [[TemporaryReaders]].
 */
final private[streamjoin] case class ReleaseTemporaryReaders(session: SparkSession)
    extends Rule[LogicalPlan] {

  override def apply(plan: LogicalPlan): LogicalPlan = {
    plan match {
      case write: WriteToStream if write.deleteCheckpointOnStop =>
        SessionListeners.addOnce(session)(new TemporaryReaders(session))
        TemporaryReaders.expect(write.resolvedCheckpointLocation)
      case _ =>
    }
    plan
  }
}
