package org.apache.spark.sql.streamjoin.batch

import scala.collection.concurrent.TrieMap
import scala.collection.mutable

import org.apache.hadoop.fs.Path

import org.apache.spark.internal.Logging
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.execution.streaming.runtime.MultipleWatermarkPolicy
import org.apache.spark.sql.internal.{SQLConf, SessionState}
import org.apache.spark.sql.streamjoin.base.{RunningQuery, StreamJoinConf}
import org.apache.spark.sql.streamjoin.checkpoint.{OperatorLog, SparksMetadata, TakeOver}
import org.apache.spark.sql.streamjoin.evolve.{Evolution, QueryOperators}
import org.apache.spark.sql.streamjoin.laterows.LateRows
import org.apache.spark.sql.streamjoin.watermark.{KeyedWatermarkLog, QueryWatermarks, WatermarkKeys}
import org.apache.spark.util.SerializableConfiguration

/**
 * The first batch of a run, or one whose predecessor had no tasks: it is bound to what the
 * checkpoint has, and compares the query with the one that wrote it.
 */
private[batch] object FirstBatch extends Logging {
  def bind(session: SparkSession, planned: PlannedBatch): BatchBinding = {
    val execution = planned.execution
    val checkpoint = new Path(execution.checkpointLocation).getParent
    val keys = WatermarkKeys.of(planned.query.logicalPlan)
    val log = new KeyedWatermarkLog(session, checkpoint)
    val operatorLog = new OperatorLog(session, checkpoint)
    val batch = execution.currentBatchId
    val takeOver = new TakeOver(session, checkpoint)
    val takesOver = batch > 0 && takeOver.isDue
    // A batch that runs again recomputes all later entries. A first batch that was never committed
    // does not count, nor does one that Spark's own join has run since.
    log.purgeAfter(if (batch == 0) -1 else if (takesOver) batch - 1 else batch)
    val (sparkLate, sparkEviction) = BatchBinding.sparkWatermarks(execution)

    val late =
      if (batch == 0) QueryWatermarks.none(keys)
      else if (takesOver) raised(QueryWatermarks.none(keys), sparkLate)
      else QueryWatermarks.read(keys, log.readOfLast(batch - 1, keys))
    val eviction = log.read(batch, keys).map(QueryWatermarks.read(keys, _)).getOrElse {
      // How far the operators have come is not known.
      val watermarks =
        (if (takesOver || resumesFromSpark) raised(late, sparkEviction) else late).withoutPassed
      log.add(batch, watermarks.entry)
      watermarks
    }
    val evolution = Evolution.of(
      session,
      checkpoint,
      batch,
      keys,
      eviction.continuity,
      // There is no record of a join of Spark's to compare with.
      if (takesOver) QueryOperators.none
      else QueryOperators.ofBatch(execution.optimizedPlan, keys, operatorLog, batch)
    )
    evolution.check()
    // A run of the same query may have planned the batch after start() had looked.
    if (execution.isFirstBatch) evolution.checkPlanned(Some(batch))
    evolution.inWords.foreach(logWarning(_))
    evolution.begin()
    val hadoopConf = SessionState.newHadoopConf(session.sparkContext.hadoopConfiguration, SQLConf.get)
    val folder = LateRows.folder(checkpoint)
    if (StreamJoinConf.keepsLateRows) LateRows.prepare(folder, hadoopConf)
    // A run may be shorter than the purge interval.
    BatchBinding.purge(batch, log, folder, hadoopConf)
    operatorLog.purgeStates(batch - SQLConf.get.minBatchesToRetain, keepsSparks = takesOver)
    val states = new OperatorStates(
      batch,
      operatorLog,
      if (takesOver) TakenOverJoins.begin(takeOver, execution.optimizedPlan)
      else TakenOverJoins.recorded(operatorLog),
      evolution.meanings,
      mutable.Map.empty,
      new SparksMetadata(session, checkpoint),
      planned.query,
      execution
    )
    if (!takesOver) states.forgetAdded(evolution.numbers.toSet)
    new BatchBinding(
      batch,
      evolution.appliedBefore(late),
      evolution
        .applied(eviction)
        .begun(
          planned.query.triggerClock.getTimeMillis(),
          acrossRuns = RunningQuery.endsByItself(planned.query)
        ),
      sparkLate,
      sparkEviction,
      SerializableConfiguration.broadcast(session.sparkContext, hadoopConf),
      log,
      states,
      TrieMap.empty,
      Some(evolution),
      planned.query,
      execution
    )
  }

  /** Spark's watermark in milliseconds; it is 0 until there is one. */
  private def raised(watermarks: QueryWatermarks, spark: Long): QueryWatermarks =
    if (spark > 0) watermarks.atLeast(spark) else watermarks

  /**
   * Spark's committed watermark is a lower bound for every key under its `min` policy: it combines
   * only our watermarks. When a join of Spark's is taken over, it is one under any policy: by it,
   * Spark has dropped late rows and evicted.
   */
  private def resumesFromSpark: Boolean =
    SQLConf.get.getConf(
      SQLConf.STREAMING_MULTIPLE_WATERMARK_POLICY
    ) == MultipleWatermarkPolicy.DEFAULT_POLICY_NAME
}
