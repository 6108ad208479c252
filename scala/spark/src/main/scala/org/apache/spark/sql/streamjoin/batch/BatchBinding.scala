package org.apache.spark.sql.streamjoin.batch

import java.lang.ref.WeakReference
import java.util.concurrent.CompletableFuture
import java.util.{Collections, WeakHashMap}

import scala.collection.concurrent.TrieMap
import scala.collection.mutable
import scala.concurrent.duration.Duration

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import org.apache.spark.broadcast.Broadcast
import org.apache.spark.internal.Logging
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.execution.streaming.StreamingQueryPlanTraverseHelper
import org.apache.spark.sql.execution.streaming.runtime.{
  IncrementalExecution,
  MicroBatchExecution,
  MicroBatchExecutionContext
}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streamjoin.analysis.InputName
import org.apache.spark.sql.streamjoin.base.StreamJoinConf
import org.apache.spark.sql.streamjoin.checkpoint.{OutlineLog, SparksOperator}
import org.apache.spark.sql.streamjoin.evolve.{Evolution, Rewriting, StateStep}
import org.apache.spark.sql.streamjoin.laterows.LateRows
import org.apache.spark.sql.streamjoin.observe.collect.{ObservedRows, RowPath, Waiting}
import org.apache.spark.sql.streamjoin.plans.StatefulNode
import org.apache.spark.sql.streamjoin.watermark.{
  KeyedWatermarkLog,
  LowestKept,
  OutputFloor,
  Passed,
  QueryWatermarks,
  ReceivedWatermarks,
  WatermarkId,
  WatermarkValues
}
import org.apache.spark.util.{SerializableConfiguration, ThreadUtils}

import streamjoin.core.Watermark

/**
 * The batch that is being planned, as our operators see it. Only this file and [[FirstBatch]] know
 * how state and watermarks reach an operator. Spark provides both only to its own operators
 * (`IncrementalExecution.StateOpIdRule`), but while it plans a batch, the thread's local properties
 * name the query, and the query leads to the batch.
 *
 * @param batch
 *   batch id
 * @param late
 *   watermarks of the batch before: a row below them is late. They lag one batch because an
 *   upstream operator still emits rows down to them while it evicts in this batch.
 * @param eviction
 *   watermarks of this batch, by which it evicts once its rows are processed
 * @param sparkLate
 *   Spark's own watermark of the batch before, in milliseconds
 * @param sparkEviction
 *   Spark's own watermark of this batch, in milliseconds
 * @param hadoopConf
 *   configuration for the state stores, broadcast once per run
 * @param states
 *   where the state of each operator is
 * @param observed
 *   by operator ordinal: counts of its tasks about their rows in this run
 * @param evolution
 *   how the query differs from the one of the batch before; only in the first batch of a run that
 *   our operators run
 */
final private[streamjoin] class BatchBinding(
    val batch: Long,
    val late: QueryWatermarks,
    val eviction: QueryWatermarks,
    val sparkLate: Long,
    val sparkEviction: Long,
    val hadoopConf: Broadcast[SerializableConfiguration],
    watermarkLog: KeyedWatermarkLog,
    val states: OperatorStates,
    observed: TrieMap[Int, ObservedRows],
    evolution: Option[Evolution],
    query: MicroBatchExecution,
    execution: IncrementalExecution
) extends Logging {
  import BatchBinding._

  lazy val lateValues: WatermarkValues = late.forLateness(sparkLate)

  /**
   * The watermarks by which the previous batch evicted. Rows that they released have been emitted.
   */
  lazy val emittedValues: WatermarkValues = late.values(sparkLate)
  lazy val evictionValues: WatermarkValues = eviction.values(sparkEviction)

  /**
   * By operator ordinal, in microseconds: Spark's operators above receive no lower watermark. Those
   * of a taken-over join have received the watermark of Spark's own join, which may be higher.
   */
  private val raisedFloors = mutable.Map.empty[Int, Long]

  def floor(ordinal: Int): Long = raisedFloors.getOrElse(ordinal, Watermark.Undefined)

  def raiseFloor(ordinal: Int, micros: Long): Unit =
    raisedFloors(ordinal) = math.max(micros, floor(ordinal))

  /** Whether it is the first batch of the run, Spark's own ones included. */
  def isFirstOfRun: Boolean = execution.isFirstBatch

  /** Whether Spark first asks for the output watermarks of the previous batch. */
  def asksForPrevious: Boolean = isFirstOfRun && sparkLate > 0

  /**
   * The watermarks of the batch for which Spark asks for an operator's output watermark
   * (`PropagateWatermarkSimulator`). Spark asks once per batch: when the previous batch has ended,
   * to learn whether this one has to run. For the first batch of a run it asks during planning; if
   * it already had a watermark at that time, it first asks for the watermark of the previous batch.
   */
  def takeForOutputWatermark(ordinal: Int): WatermarkValues =
    if (hasEnded) nextValues
    else if (asksForPrevious && lateTaken.add(ordinal)) emittedValues
    else evictionValues

  private val lateTaken = mutable.Set.empty[Int]

  /** The steps that tasks take over the rows in state before they read those of the batch. */
  def steps(ordinal: Int): Seq[StateStep] = evolution.fold(Seq.empty[StateStep])(_.steps(ordinal))

  /** For EXPLAIN: how an operator differs from that of the batch before. */
  def changesInWords(ordinal: Int): Seq[String] = evolution.fold(Seq.empty[String])(_.inWords(ordinal))

  /**
   * Whether the rows of an operator in state have to be written again before the batch runs, and
   * how. A batch that runs again after that has the same answer.
   */
  def rewritten(ordinal: Int): Option[Rewriting] = evolution.flatMap(_.rewritten(ordinal))

  /**
   * The event time from which on the results of an operator are complete, in microseconds, for as
   * long as they may lack rows that were not kept before the query was changed.
   */
  def completeFrom(exec: BoundOperator): Option[Long] = {
    lazy val evicted = exec.passed(eviction.valuesOfPlan(sparkEviction), Map.empty).evicted
    eviction.continuity.open(exec.ordinal, evicted).map(_.completeFrom).maxOption
  }

  def lateRows: Path = LateRows.folder(new Path(execution.checkpointLocation).getParent)

  /** User-facing names of the inputs. */
  lazy val inputs: Map[WatermarkId, InputName] = InputName.of(execution.analyzed)

  /**
   * The first step of an operator in a run: checks that the state in the checkpoint belongs to it
   * or, if there is none yet, records the operator. The strategy takes this step when it plans an
   * operator, because no other code of streamjoin runs before the first batch.
   *
   * @param name
   *   by which Spark knows it
   */
  def beginRun(node: StatefulNode, name: String, partitions: Int): Unit =
    evolution.foreach { changed =>
      if (!states.isTakenOver(node.ordinal)) changed.record(node.ordinal, partitions)
      states.beginRun(node, name)
      beforeTasks(node.ordinal) = () => {
        if (!states.isTakenOver(node.ordinal)) changed.forgetAbandoned(node.ordinal, partitions)
        states.beginTasks(node)
      }
    }

  /**
   * The operators that the query has no longer, for as long as Spark compares the plan with them,
   * if an operator is the one above which they are planned.
   */
  def removedAbove(ordinal: Int): Seq[SparksOperator] =
    evolution
      .map(_.numbers)
      .filter(numbers => isFirstOfRun && numbers.headOption.contains(ordinal))
      .fold(Seq.empty[SparksOperator])(numbers => states.removed(numbers.toSet))

  /** By operator ordinal: what is recorded once the batch runs. */
  private val beforeTasks = mutable.Map.empty[Int, () => Unit]

  @volatile private var hasTasks = false

  /**
   * Called when the tasks of an operator are about to run. A sink skips a planned batch if it has
   * the rows from an earlier attempt, perhaps with other settings or of another query. What that
   * one has recorded and written to the state counts, so planning a batch again records nothing
   * else.
   */
  def beginTasks(ordinal: Int): Unit = synchronized {
    if (!hasTasks) evolution.foreach { changed =>
      watermarkLog.continue(batch, eviction)
      changed.forgetAdded()
      if (batch == 0) states.forgetFailed()
      val tasks = operators(execution).map(of => LateRows.operator(Some(of.ordinal + 1)) -> of.numPartitions)
      LateRows.forget(lateRows, batch, tasks.toMap, hadoopConf.value.value)
    }
    hasTasks = true
    beforeTasks.remove(ordinal).foreach(_())
  }

  /**
   * The last step of a batch, after it has run: computes the watermarks of the next batch and
   * starts to write them while Spark writes its own logs. A restart then sees the same watermarks
   * as an uninterrupted run. When a batch is over, Spark asks its operators for their progress
   * before it looks for the next batch. This step is taken then, once for all operators of the
   * query.
   */
  def endBatch(): Unit = synchronized {
    if (!hasEnded) {
      val time = execution.offsetSeqMetadata.batchTimestampMs
      val watermarks = continued(
        withOrders(
          withLowestKept(eviction.after(execution.executedPlan, time)).idleAt(time, received, sparkEviction)
        ).withNewest(execution.executedPlan)
      )
      val entry = watermarks.entry.copy(received = receivedValues(watermarks.values(sparkEviction)))
      ended = Some(Ended(watermarks, watermarkLog.addInBackground(batch + 1, entry)))
      if (evolution.isDefined) recordOutlines()
      operators(execution).foreach { exec =>
        val observed = observedRows(exec.ordinal)
        observed.add(
          exec.reports,
          exec.children.map(RowPath.of),
          if (StreamJoinConf.observesRows) exec.outline.inputs.map(exec.newest(_, newestJudging)) else Nil
        )
        Waiting.above(execution.executedPlan, exec).foreach(observed.addAbove)
        exec.warning(observed).foreach(logWarning(_))
      }
    }
  }

  /** Adds how far the operators have come, which counts if the query is changed. */
  private def continued(watermarks: QueryWatermarks): QueryWatermarks = {
    val values = eviction.valuesOfPlan(sparkEviction)
    val newest = watermarks.newestSeen(execution.executedPlan)
    val passed = operators(execution).map(exec => exec.ordinal -> exec.passed(values, newest))
    val floors = raisedFloors.map { case (ordinal, micros) =>
      ordinal -> OutputFloor(batch, Passed(outputs = Nil, forSpark = micros))
    }
    // Of a batch that the sink has skipped, an earlier attempt has recorded what counts.
    val begun =
      if (hasTasks) eviction.continuity
      else watermarkLog.written(batch).fold(eviction.continuity)(_.continuity)
    watermarks.copy(continuity = begun.withFloors(floors.toMap).after(passed.toMap))
  }

  /** By ordinal, in microseconds. */
  private def receivedValues(values: WatermarkValues): Map[Int, Seq[Option[Long]]] =
    received.map { of =>
      of.ordinal -> of.columns.map(column => Some(column.value(values)).filter(_ != Watermark.Undefined))
    }.toMap

  private def recordOutlines(): Unit = {
    val log = new OutlineLog(query.sparkSession, new Path(execution.checkpointLocation).getParent)
    operators(execution).foreach(exec => log.record(exec.outline, batch))
  }

  /** Adds how old the rows in state are. */
  private def withLowestKept(watermarks: QueryWatermarks): QueryWatermarks = {
    lazy val judging = eviction.forLateness(sparkEviction)
    val states = for {
      exec <- operators(execution)
      (key, lowest) <- exec.lowestNeeded.toSeq
      column = exec.watermarks(key)
    } yield LowestKept
      .InState((exec.ordinal, key), lowest, column.value(judging), column.value(evictionValues))
    watermarks.copy(lowestKept = watermarks.lowestKept.after(states))
  }

  /** Adds the bounds that rows in state imply for the order of the operators above them. */
  private def withOrders(watermarks: QueryWatermarks): QueryWatermarks = {
    lazy val next = watermarks.values(sparkEviction)
    lazy val judging = eviction.forLateness(sparkEviction)
    val orders =
      operators(execution).flatMap(exec => exec.earliestToCome(next, judging).map(exec.ordinal -> _))
    val waiting = operators(execution).flatMap(exec => exec.waitingFrom.map(exec.ordinal -> _))
    watermarks.ordered(orders.toMap).copy(waiting = waiting.toMap)
  }

  /** The lowest time in an operator's state before the batch, if it has emitted nothing yet. */
  def waitingFrom(ordinal: Int): Long = eviction.waiting.getOrElse(ordinal, Watermark.Undefined)

  @volatile private var ended: Option[Ended] = None

  /** The watermarks after the batch, which must have ended. */
  def valuesAfter: WatermarkValues = end.watermarks.values(sparkEviction)

  /**
   * The user-facing name of the input that an event-time column comes from, or the column's name.
   */
  def inputOf(origin: WatermarkId): String = inputs
    .get(origin)
    .map(_.table)
    .getOrElse(eviction.keys.columns(eviction.keys.origins.indexOf(origin)).name)

  private def hasEnded: Boolean = ended.isDefined

  private def end: Ended =
    ended.getOrElse(throw new IllegalStateException(s"batch $batch has not ended: endBatch() comes first"))

  /** The watermarks of the next batch, durable in the checkpoint. This batch must have ended. */
  def next: QueryWatermarks = {
    ThreadUtils.awaitResult(end.written, Duration.Inf)
    end.watermarks
  }

  /**
   * Spark's own watermark of the next batch, in milliseconds, while Spark asks whether that batch
   * has to run. What Spark passes to an operator is another one above a join: the output watermark
   * of that join.
   */
  def sparkNext: Long = query.getLatestExecutionContext().offsetSeqMetadata.batchWatermarkMs

  /** The watermarks by which the next batch evicts. This batch must have ended. */
  def nextValues: WatermarkValues = next.values(sparkNext)

  /**
   * An input has become idle since the batch ended, and other inputs advance its watermark. One
   * more batch records this in the checkpoint, for the batch after it.
   */
  def hasNewlyIdle: Boolean = next.keys.idleAfterMs.exists(_.isDefined) && {
    // The time of a batch that started now.
    val time = query.getLatestExecutionContext().offsetSeqMetadata.batchTimestampMs
    next.idleAt(time, received, sparkEviction).evictsOtherThan(next)
  }

  /** The watermarks that our operators receive. */
  private def received: Seq[ReceivedWatermarks] = operators(execution).map(_.received)

  /** The newest event times from which the watermarks for late rows are computed. */
  lazy val newestJudging: Map[WatermarkId, Long] = late.newest(execution.executedPlan)

  /** The newest event times seen up to and including this batch, which must have ended. */
  lazy val newest: Map[WatermarkId, Long] = end.watermarks.newest(execution.executedPlan)

  /** The binding of the next batch in the same run. */
  private def following(execution: IncrementalExecution): BatchBinding = {
    if (batch % LateRows.PurgeInterval == 0) purge(batch, watermarkLog, lateRows, hadoopConf.value.value)
    val (sparkLate, sparkEviction) = sparkWatermarks(execution)
    new BatchBinding(
      batch + 1,
      eviction,
      next,
      sparkLate,
      sparkEviction,
      hadoopConf,
      watermarkLog,
      states.following(execution),
      observed,
      None,
      query,
      execution
    )
  }

  /** The counts of an operator's tasks about their rows in this run. */
  def observedRows(ordinal: Int): ObservedRows = observed.getOrElseUpdate(ordinal, new ObservedRows)
}

private[streamjoin] object BatchBinding {

  /** The results of a finished batch. */
  final private case class Ended(watermarks: QueryWatermarks, written: CompletableFuture[Void])

  /**
   * All operators of a batch share one binding, so that the next watermarks are written once. It
   * lives as long as a plan references it. A single thread plans a batch.
   */
  private val bindings =
    Collections.synchronizedMap(new WeakHashMap[IncrementalExecution, WeakReference[BatchBinding]])

  /**
   * The first step of a batch, taken when the first of its operators is planned: binds the batch to
   * the watermarks in the checkpoint, purges entries that no batch needs any longer, and writes the
   * watermarks of the very first batch. The other operators get the same binding. None if a plan is
   * only explained.
   */
  def beginBatch(session: SparkSession): Option[BatchBinding] = PlannedBatch.current(session).map { batch =>
    known(batch.execution).getOrElse {
      val made = bind(session, batch)
      bindings.put(batch.execution, new WeakReference(made))
      made
    }
  }

  /**
   * Our operators in the last finished batches of a query, the newest first, callable from any
   * thread.
   */
  def lastEnded(query: MicroBatchExecution): Seq[(BatchBinding, Seq[BoundOperator])] = {
    val contexts = query.getLatestExecutionContext() match {
      case now: MicroBatchExecutionContext => now +: now.previousContext.toSeq
      case _ => Nil
    }
    // Do not ask for a plan that does not exist yet: it would be created in the wrong thread.
    contexts
      .flatMap(context => Option(context.executionPlan))
      .flatMap(execution => known(execution).filter(_.hasEnded).map(_ -> operators(execution)))
  }

  private def known(execution: IncrementalExecution): Option[BatchBinding] =
    Option(bindings.get(execution)).flatMap(reference => Option(reference.get))

  /** The time of the batch that this thread plans, from the offset log, in milliseconds. */
  def currentTime(session: SparkSession): Option[Long] =
    PlannedBatch.current(session).map(_.execution.offsetSeqMetadata.batchTimestampMs)

  // Do not ask the current execution for its executed plan, which is being built: that would
  // recurse.
  private def bind(session: SparkSession, batch: PlannedBatch): BatchBinding =
    previous(batch.context)
      .filter(before => before.batch == batch.execution.currentBatchId - 1 && before.hasTasks)
      .map(_.following(batch.execution))
      .getOrElse(FirstBatch.bind(session, batch))

  private def previous(
      context: MicroBatchExecutionContext
  ): Option[BatchBinding] =
    for {
      before <- context.previousContext
      execution <- Option(before.executionPlan)
      binding <- operators(execution).flatMap(_.binding).headOption
    } yield binding

  /** Our operators in a planned batch. */
  private def operators(execution: IncrementalExecution): Seq[BoundOperator] =
    StreamingQueryPlanTraverseHelper.collectFromUnfoldedPlan(execution.executedPlan) {
      case node: BoundOperator => node
    }

  /** Removes entries that no batch needs any longer. */
  def purge(batch: Long, log: KeyedWatermarkLog, lateRows: Path, hadoopConf: Configuration): Unit = {
    log.purge(batch - SQLConf.get.minBatchesToRetain)
    if (StreamJoinConf.keepsLateRows) LateRows.purge(lateRows, hadoopConf)
  }

  /** Those of the batch before and of this one, in milliseconds; 0 until there is one. */
  def sparkWatermarks(execution: IncrementalExecution): (Long, Long) = (
    execution.prevOffsetSeqMetadata.map(_.batchWatermarkMs).getOrElse(0L),
    execution.offsetSeqMetadata.batchWatermarkMs
  )
}
