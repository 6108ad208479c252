package org.apache.spark.sql.streamjoin.rules.start

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.streaming.WriteToStream
import org.apache.spark.sql.execution.streaming.OneTimeTrigger
import org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution
import org.apache.spark.sql.streaming.StreamingQueryListener
import org.apache.spark.sql.streaming.StreamingQueryListener._
import org.apache.spark.sql.streamjoin.base.{NextOffsets, RunningQuery, SessionListeners}
import org.apache.spark.sql.streamjoin.joins.table.TableRematch

/**
 * Adds a [[FirstBatch]] listener to the session if the query keeps rows for a later match in a
 * table: its run begins with a batch, because the table may have changed while the query was
 * stopped, and the stream may be silent. Spark calls the rule at `start()`, before the query
 * announces its start to listeners.
 */
final private[streamjoin] case class PlanFirstBatch(session: SparkSession) extends Rule[LogicalPlan] {

  override def apply(plan: LogicalPlan): LogicalPlan = {
    plan match {
      case write: WriteToStream if FirstBatch.isFor(write.inputQuery) =>
        SessionListeners.addOnce(session)(new FirstBatch(session))
      case _ =>
    }
    plan
  }
}

/**
 * Writes the first batch of a run to the offset log, with the offsets of the batch before, as if
 * the previous run had planned it and ended. Spark itself considers a batch without new rows only
 * after a plan has run (`MicroBatchExecution.constructNextBatch`). The listener runs in the query's
 * thread, which announces its start before it reads its checkpoint (`StreamExecution.runStream`).
 */
final private class FirstBatch(session: SparkSession) extends StreamingQueryListener {

  override def onQueryStarted(event: QueryStartedEvent): Unit =
    RunningQuery
      .of(session, event.id)
      // A run with a single batch would have no batch left for its new rows.
      .filter(query => FirstBatch.isFor(query.analyzedPlan) && query.trigger != OneTimeTrigger)
      .filter(_.sparkSession.sessionState.conf.streamingNoDataMicroBatchesEnabled)
      .foreach(plan)

  override def onQueryProgress(event: QueryProgressEvent): Unit = ()

  override def onQueryTerminated(event: QueryTerminatedEvent): Unit = ()

  /** A batch that was planned but not committed runs again anyway. */
  private def plan(query: MicroBatchExecution): Unit =
    for {
      (batch, last) <- query.offsetLog.getLatest()
      (committed, commit) <- query.commitLog.getLatest() if committed == batch
      next <- NextOffsets.after(last, commit.nextBatchWatermarkMs, query.triggerClock.getTimeMillis())
    } query.offsetLog.add(batch + 1, next): Unit
}

private object FirstBatch {
  def isFor(query: LogicalPlan): Boolean = query.exists(_.isInstanceOf[TableRematch])
}
