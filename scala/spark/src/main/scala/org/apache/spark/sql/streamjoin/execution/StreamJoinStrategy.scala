package org.apache.spark.sql.streamjoin.execution

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streamjoin.plans.{IntervalJoin, WatermarkBarrier}

/** Plans our logical nodes; binds a join to the batch that is being planned. */
final private[streamjoin] case class StreamJoinStrategy(session: SparkSession) extends SparkStrategy {

  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case join: IntervalJoin =>
      val binding = BatchBinding.current(session)
      binding.foreach { batch =>
        batch.verify(join)
        // Spark switches it off for queries whose joins it sees (MicroBatchExecution); ours are hidden from it. This is
        // the query's own copy of the session.
        SQLConf.get.setConf(SQLConf.ADAPTIVE_EXECUTION_ENABLED, false)
      }
      IntervalJoinExec(
        join.leftKeys,
        join.rightKeys,
        join.condition,
        join.times,
        join.plan,
        binding,
        planLater(join.left),
        planLater(join.right)
      ) :: Nil
    case WatermarkBarrier(child) => planLater(child) :: Nil
    case _ => Nil
  }
}
