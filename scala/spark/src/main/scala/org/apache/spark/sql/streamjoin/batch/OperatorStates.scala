package org.apache.spark.sql.streamjoin.batch

import java.util.UUID

import scala.collection.mutable

import org.apache.hadoop.fs.Path

import org.apache.spark.internal.Logging
import org.apache.spark.sql.execution.streaming.StreamingQueryPlanTraverseHelper
import org.apache.spark.sql.execution.streaming.operators.stateful.{
  StateStoreWriter,
  StatefulOperatorStateInfo
}
import org.apache.spark.sql.execution.streaming.runtime.{IncrementalExecution, MicroBatchExecution}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streamjoin.base.StreamJoinConf
import org.apache.spark.sql.streamjoin.checkpoint.{
  Generation,
  OperatorLog,
  SparksJoin,
  SparksMetadata,
  SparksOperator
}
import org.apache.spark.sql.streamjoin.plans.StatefulNode

/**
 * Where the state of each operator is in a batch, and where it has to be written before.
 *
 * @param takenOver
 *   the operators that have taken over a join of Spark's
 * @param meanings
 *   by operator ordinal: what rows in state mean from this batch on, if they have to be written
 *   again
 * @param places
 *   by operator ordinal, for the operators known in this run
 */
final private[streamjoin] class OperatorStates(
    batch: Long,
    log: OperatorLog,
    takenOver: TakenOverJoins,
    meanings: Map[Int, String],
    places: mutable.Map[Int, StatePlaces],
    metadata: SparksMetadata,
    query: MicroBatchExecution,
    execution: IncrementalExecution
) extends Logging {

  /**
   * Where the state of an operator is. If another number of partitions is set than it has, or
   * another state store, the state is rewritten once, before the first batch of a run.
   *
   * @param number
   *   the number of partitions, given the one that is asked for and the one that the operator has
   */
  def state(ordinal: Int, number: (Int, Int) => Int): Generation = places
    .getOrElseUpdate(
      ordinal,
      generations(ordinal) match {
        case None => StatePlaces(Generation(0, number(StreamJoinConf.setPartitions.getOrElse(first), 0)))
        case Some(recorded) =>
          StatePlaces.of(
            recorded,
            batch,
            now => number(StreamJoinConf.setPartitions.getOrElse(if (now == 0) first else now), now),
            provider,
            isSparks = isTakenOver(ordinal),
            meaning = meanings.get(ordinal)
          )
      }
    )
    .current

  /** The number of partitions of an operator that has none, unless it is set. */
  private def first: Int = execution.numStateStores

  def state(ordinal: Int): Generation = places(ordinal).current

  private def generations(ordinal: Int): Option[Seq[Generation]] =
    if (isTakenOver(ordinal)) Some(sparksGeneration +: takenOver.attempted(ordinal, batch))
    // The first batch has no state to start from, whatever an attempt at it has recorded.
    else if (batch == 0) None
    else log.generations(ordinal)

  /** The state of Spark's own operators. */
  private def sparksGeneration: Generation = Generation(0, execution.numStateStores)

  /** Whether an operator takes over a join of Spark's in this batch. */
  def isTakenOver(ordinal: Int): Boolean = takenOver.begun.contains(ordinal)

  /** Whether an operator has the id and the name of a join of Spark's. */
  def hasSparksId(ordinal: Int): Boolean = takenOver.operators.contains(ordinal)

  /** The join of Spark's that an operator takes over in this batch, and where its state is. */
  def sparksState(ordinal: Int): (SparksJoin, StatefulOperatorStateInfo) = {
    val join = takenOver.begun(ordinal)
    // Another run id, for stores of their own: those of a batch that Spark has run may be open.
    val info = stateInfo(ordinal, sparksGeneration).copy(queryRunId = UUID.randomUUID())
    join -> info
  }

  /**
   * The provider of an operator's state stores. Spark's own operators keep the one of the
   * checkpoint, whose name replaces the session's in the settings of the query.
   *
   * @param now
   *   the one that it has, if it is not that of the checkpoint
   */
  private def provider(now: Option[String]): Option[String] = {
    val ofCheckpoint = SQLConf.get.stateStoreProviderClass
    val session = query.sparkSession.sessionState.conf
    if (session.contains(SQLConf.STATE_STORE_PROVIDER_CLASS.key))
      Some(session.stateStoreProviderClass).filter(_ != ofCheckpoint)
    else now
  }

  /** The state that has to be rewritten before this batch runs, and where to. */
  def rewriting(ordinal: Int): Option[(Generation, Generation)] =
    places(ordinal).rewritten.map(_ -> places(ordinal).current)

  /** The state of an operator has been rewritten. */
  def begin(ordinal: Int, generation: Generation): Unit = {
    log.begin(ordinal, generation)
    places(ordinal) = StatePlaces(generation)
  }

  /** Locates the state of an operator. */
  def stateInfo(ordinal: Int, generation: Generation): StatefulOperatorStateInfo = {
    val operator = takenOver.id(ordinal)
    val isNew = generation.folder.isDefined && generation.from == batch
    // Spark compares the ids that the tasks started from with these.
    if (isNew && generation.storeIds.nonEmpty)
      execution.currentStateStoreCkptId.put(operator, generation.storeIds.map(Array(_)).toArray): Unit
    StatefulOperatorStateInfo(
      generation.root(new Path(execution.checkpointLocation)).toString,
      execution.runId,
      operator,
      generation.version(batch),
      generation.partitions,
      None,
      execution.currentStateStoreCkptId.get(operator).filterNot(_ => isNew && generation.storeIds.isEmpty)
    )
  }

  /**
   * In the first batch of a run: logs a rewrite, and lets Spark know an operator that was added.
   */
  def beginRun(node: StatefulNode, name: String): Unit = {
    if (log.recorded(node.ordinal).exists(_.added.isDefined))
      metadata.add(SparksOperator(takenOver.id(node.ordinal), name, state(node.ordinal).partitions))
    // A state without a description is taken for a damaged one.
    if (isTakenOver(node.ordinal) && log.recorded(node.ordinal).isEmpty) recordTakeOver(node)
    rewriting(node.ordinal).filterNot(_._1.isEmpty).foreach { case (before, next) =>
      logInfo(
        s"Batch $batch rewrites the state of operator ${node.ordinal + 1} (${node.kind}): " +
          s"${before.partitions} partitions before, ${next.partitions} from now on" +
          next.provider.filter(_ => next.provider != before.provider).fold("")(name => s", in $name")
      )
    }
  }

  /** Before the tasks of the first batch of a run: forgets an abandoned attempt. */
  def beginTasks(node: StatefulNode): Unit = {
    if (isTakenOver(node.ordinal)) recordTakeOver(node)
    if (!places(node.ordinal).isRecorded) log.abandon(node.ordinal, batch)
  }

  private def recordTakeOver(node: StatefulNode): Unit = {
    val written = Some(places(node.ordinal)).filter(_.isRecorded).map(_.current)
    log.takeOver(node, takenOver.taken(node.ordinal), sparksGeneration +: written.toSeq)
    logInfo(
      s"Batch $batch takes over the state of operator ${node.ordinal + 1} (${node.kind}) from Spark's own join, " +
        s"whose operator is ${takenOver.id(node.ordinal)}"
    )
  }

  /**
   * The operators that the query has no longer, and Spark still knows.
   *
   * @param kept
   *   the operators of the query
   */
  def removed(kept: Set[Int]): Seq[SparksOperator] = metadata.recorded(log.all.zipWithIndex.collect {
    case (operator, ordinal) if operator.removed.isDefined && !kept(ordinal) => log.id(ordinal)
  })

  /**
   * Called before the first batch of a run is planned: Spark forgets the operators that were added
   * by an attempt that was abandoned.
   *
   * @param kept
   *   the operators of the query
   */
  def forgetAdded(kept: Set[Int]): Unit = log.all.zipWithIndex.foreach { case (operator, ordinal) =>
    if (!kept(ordinal) && operator.added.exists(_ >= batch)) metadata.delete(log.id(ordinal))
  }

  /** Called before the tasks of the very first batch run, which an attempt may have begun. */
  def forgetFailed(): Unit = metadata.keepOnly(
    StreamingQueryPlanTraverseHelper.collectFromUnfoldedPlan(execution.executedPlan) {
      case operator: StateStoreWriter =>
        val info = operator.getStateInfo
        SparksOperator(info.operatorId, operator.shortName, info.numPartitions)
    }
  )

  /** Those of the next batch in the same run. */
  def following(execution: IncrementalExecution): OperatorStates =
    new OperatorStates(batch + 1, log, takenOver.later, Map.empty, places, metadata, query, execution)
}
