package org.apache.spark.sql.streamjoin.rules.start

import java.util.UUID
import java.util.concurrent.ConcurrentHashMap

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.streaming.WriteToStream
import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
import org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution
import org.apache.spark.sql.streaming.StreamingQueryListener
import org.apache.spark.sql.streaming.StreamingQueryListener._
import org.apache.spark.sql.streamjoin.base.{RunningQuery, SessionListeners, StreamJoinConf}
import org.apache.spark.sql.streamjoin.checkpoint.{BatchesNotBegun, OperatorLog}

/**
 * Adds a [[NextBatch]] listener to the session. Spark calls the rule at `start()`. Listeners are
 * called in the order in which they were added: this one comes before the one that plans a batch
 * ([[PlanFirstBatch]]).
 */
final private[streamjoin] case class MarkNextBatch(session: SparkSession) extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = {
    if (plan.isInstanceOf[WriteToStream]) SessionListeners.addOnce(session)(new NextBatch(session))
    plan
  }
}

/**
 * Marks the next batch of a query that may have changed ([[BatchesNotBegun]]). The listener runs in
 * the query's thread, before it reads its checkpoint, and after a run of the same query in this
 * session has been stopped. If it fails, a change is rejected when the batch begins.
 */
final private class NextBatch(session: SparkSession) extends StreamingQueryListener {
  private val checkpoints = new ConcurrentHashMap[UUID, Path]

  override def onQueryStarted(event: QueryStartedEvent): Unit =
    RunningQuery.of(session, event.id).filter(acceptsChanges).foreach { query =>
      val checkpoint = new Path(query.resolvedCheckpointRoot)
      if (hasOperators(checkpoint)) {
        new BatchesNotBegun(session, checkpoint).markNext()
        checkpoints.put(event.runId, checkpoint): Unit
      }
    }

  override def onQueryProgress(event: QueryProgressEvent): Unit = ()

  /** If another driver has planned the batch, it has probably begun it as well. */
  override def onQueryTerminated(event: QueryTerminatedEvent): Unit =
    Option(checkpoints.remove(event.runId))
      .filter(_ => event.exception.exists(text => NextBatch.OfTwoDrivers.exists(text.contains(_))))
      .foreach(new BatchesNotBegun(session, _).deleteAll())

  private def acceptsChanges(query: MicroBatchExecution): Boolean =
    query.sparkSession.sessionState.conf.getConf(StreamJoinConf.Evolve) != StreamJoinConf.Reject

  private def hasOperators(checkpoint: Path): Boolean = {
    val hadoopConf = session.asInstanceOf[ClassicSession].sessionState.newHadoopConf()
    CheckpointFileManager.create(checkpoint, hadoopConf).exists(new Path(checkpoint, OperatorLog.Directory))
  }
}

private object NextBatch {

  /** The errors of a driver that writes a log of Spark's after another one. */
  private val OfTwoDrivers = Seq("CONCURRENT_STREAM_LOG_UPDATE", "ConcurrentModificationException")
}
