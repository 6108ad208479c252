package org.apache.spark.sql.streamjoin.evolve

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streamjoin.base.{StreamJoinConf, StreamJoinErrors}
import org.apache.spark.sql.streamjoin.checkpoint.{
  BatchesNotBegun,
  CommittedBatches,
  Description,
  DescriptionLog,
  OperatorLog
}
import org.apache.spark.sql.streamjoin.plans.StatefulNode
import org.apache.spark.sql.streamjoin.watermark._

/**
 * How a query differs from the one that its checkpoint records, and what follows for its next
 * batch, the first of the changed query.
 *
 * {{{
 *   stream-joins/<n>       the old description | from batch N: the new one
 *   keyed-watermarks/N     how far the operators had come with N - 1; floors and gaps from N on
 *
 *   N is committed         the next run takes the new description for the old one
 *   N fails, and
 *     runs again           from the same state and watermarks, by the same changes
 *     the old query runs   what has N as its first batch is dropped
 * }}}
 *
 * @param recorded
 *   with which the batch begins: how far the operators had come with the batch before
 */
final private[streamjoin] class Evolution private (
    log: OperatorLog,
    notBegun: BatchesNotBegun,
    checkpoint: Path,
    batch: Long,
    recorded: => Continuity,
    nodes: Seq[StatefulNode],
    describe: StatefulNode => Description
) {

  // Without a change, it is not read.
  private lazy val continuity = recorded.before(batch)

  /** The changes of each operator that has any, by ordinal. */
  val changes: Map[Int, Seq[Change]] = {
    for {
      node <- nodes
      (was, is) <- descriptions(node)
      found = ChangeRules.changes(
        was,
        is,
        continuity.passed.get(node.ordinal),
        continuity.gaps.getOrElse(node.ordinal, Nil)
      )
      if found.nonEmpty
    } yield node.ordinal -> found
  }.toMap

  /** What an operator was and is, if it was recorded. */
  private def descriptions(node: StatefulNode): Option[(Description, Description)] =
    log.recorded(node.ordinal).map(recorded => recorded.before(batch) -> describe(node))

  /** By ordinal: what becomes of the times by which the rows of a changed operator expire. */
  private lazy val times: Map[Int, BoundRules] = {
    for {
      node <- nodes.filter(isChanged)
      (was, is) <- descriptions(node)
      rules <- ChangeRules.times(was, is)
    } yield node.ordinal -> rules
  }.toMap

  /** @throws org.apache.spark.sql.AnalysisException unless `spark.streamjoin.evolve` accepts all */
  def check(): Unit = {
    val setting = SQLConf.get.getConf(StreamJoinConf.Evolve)
    // Of several, the one that needs most: the value that accepts it accepts the others, too.
    inOrder.flatMap(_._2).sortBy(Evolution.order).headOption.filterNot(_.isAcceptedBy(setting)).foreach {
      worst =>
        throw DescriptionLog.changed(
          checkpoint,
          worst.what,
          worst.was,
          worst.is,
          worst.state,
          worst.results,
          worst.advice
        )
    }
  }

  /**
   * Rejects a change while a batch is planned but not committed, unless an attempt of the same
   * query has begun it, or nobody has: what the sink has of it belongs to the old query.
   *
   * @param planned
   *   the last batch that is planned
   */
  def checkPlanned(planned: Option[Long]): Unit =
    pending(planned).foreach { pending =>
      throw StreamJoinErrors.analysis(
        "STREAMJOIN_CHECKPOINT_PENDING",
        "checkpoint" -> checkpoint.toString,
        "batch" -> pending.toString,
        "advice" -> Evolution.FinishPending
      )
    }

  def pending(planned: Option[Long]): Option[Long] =
    planned.filter { last =>
      changes.nonEmpty && last >= batch && !isAttempted && !notBegun.contains(last)
    }

  /** Whether an attempt of the same query has begun the batch. */
  private def isAttempted: Boolean = nodes.forall { node =>
    log.recorded(node.ordinal).exists { recorded =>
      val begun = recorded.changed.collect { case (`batch`, next) => next }.getOrElse(recorded)
      begun.difference(describe(node)).isEmpty
    }
  }

  /**
   * Records the changes. From now on, the sink may have rows of the batch, so only an attempt of
   * the same query may run it again, and the old query.
   */
  def begin(): Unit = {
    nodes.filter(isChanged).foreach(log.change(_, batch))
    notBegun.begin(batch)
  }

  /** Called in the first batch of a run for each operator. */
  def record(node: StatefulNode, partitions: Int): Unit =
    if (!isChanged(node)) log.record(node, partitions)

  /** Called before the tasks of an operator run. */
  def forgetAbandoned(node: StatefulNode): Unit =
    if (!isChanged(node)) log.forgetAbandoned(node, batch)

  private def isChanged(node: StatefulNode): Boolean = changes.contains(node.ordinal)

  /** What the tasks of the first batch do before they read its rows. */
  def steps(ordinal: Int): Seq[StateStep] =
    accepted(ordinal).flatMap(_.steps)

  private def accepted(ordinal: Int): Seq[Effect.Accepted] =
    changes.getOrElse(ordinal, Nil).map(_.effect).collect { case effect: Effect.Accepted => effect }

  /** If the rows of an operator in state have to be written again. */
  def rewritten(ordinal: Int): Option[Rewriting] = for {
    node <- nodes.find(_.ordinal == ordinal)
    if accepted(ordinal).exists(_.isInstanceOf[Effect.Rewritten])
    (was, is) <- descriptions(node)
  } yield Rewriting(was, is, times.get(ordinal).map(_.places))

  /** By ordinal: identifies what the rows of a rewritten state mean. */
  def meanings: Map[Int, String] =
    nodes.flatMap(node => rewritten(node.ordinal).map(node.ordinal -> _.is.meaning)).toMap

  /** The watermarks with which the batch begins: without what a failed attempt has added. */
  def applied(watermarks: QueryWatermarks): QueryWatermarks = {
    val before = watermarks.continuity.before(batch)
    val moved = new MovedKeys(batch, nodes, descriptions(_), continuity.passed)
    val kept = moved.kept(before)
    watermarks.copy(continuity =
      if (changes.isEmpty) kept
      else
        kept
          .withFloors(continuity.passed.map { case (ordinal, reached) =>
            ordinal -> OutputFloor(batch, now(ordinal, moved.passed(ordinal, reached)))
          })
          .replacingGaps(batch)((ordinal, gap) => times.get(ordinal).fold(Option(gap))(_.gapNow(gap)))
          .withGaps(changes.transform((ordinal, _) => gaps(ordinal)).filter(_._2.nonEmpty))
    )
  }

  private def now(ordinal: Int, reached: Passed): Passed =
    times.get(ordinal).fold(reached)(rules => reached.copy(evicted = rules.evictedNow(reached.evicted)))

  /** The watermarks of the batch before. */
  def appliedBefore(watermarks: QueryWatermarks): QueryWatermarks =
    applied(watermarks).copy(isOfQueryBefore = changes.nonEmpty)

  private def gaps(ordinal: Int): Seq[Gap] =
    accepted(ordinal).flatMap(_.later).map(of => Gap(batch, of.key, of.below, of.completeFrom))

  /** For EXPLAIN: the changes of an operator. */
  def inWords(ordinal: Int): Seq[String] = changes.getOrElse(ordinal, Nil).map { change =>
    s"changed with this batch: ${change.what} was ${change.was}, is ${change.is} (state ${change.state}, results " +
      s"${change.results})"
  }

  private def inOrder: Seq[(Int, Seq[Change])] = changes.toSeq.sortBy(_._1)

  /** For the log. */
  def inWords: Seq[String] = for ((ordinal, all) <- inOrder; change <- all)
    yield s"Batch $batch is the first with another join ${ordinal + 1}: its ${change.what} was ${change.was}, and now " +
      s"it is ${change.is}. State: ${change.state}. Results: ${change.results}."
}

/**
 * How the rows of an operator in state are written again.
 *
 * @param places
 *   by buffer, for each time that expires its rows: the position of that time among the old ones;
 *   none if they are the same
 */
final private[streamjoin] case class Rewriting(
    was: Description,
    is: Description,
    places: Option[Seq[Seq[Option[Int]]]]
)

private[streamjoin] object Evolution {

  /** What to do about a batch that is planned but not committed. */
  val FinishPending =
    "Run the old query once, with Trigger.AvailableNow, to finish the batch. Then start the changed query."

  /** The changes that need most come first. */
  private def order(change: Change): Int = change.accepting match {
    case None => 0
    case Some(StreamJoinConf.Allow) => 1
    case Some(_) => 2
  }

  /**
   * @param watermarks
   *   with which the batch begins, as recorded
   */
  def of(
      log: OperatorLog,
      notBegun: BatchesNotBegun,
      checkpoint: Path,
      batch: Long,
      watermarks: Continuity,
      nodes: Seq[StatefulNode]
  ): Evolution =
    new Evolution(log, notBegun, checkpoint, batch, watermarks, nodes, OperatorLog.describe)

  /**
   * For the next batch of a checkpoint, before the query runs: what the optimizer decides is left
   * out, unless `planned` is set. It only reads.
   */
  def ofNext(
      session: SparkSession,
      checkpoint: Path,
      hadoopConf: Configuration,
      nodes: Seq[StatefulNode],
      planned: Boolean
  ): Evolution = {
    val batch = CommittedBatches.last(checkpoint, hadoopConf).fold(0L)(_ + 1)
    val files = CheckpointFileManager.create(checkpoint, hadoopConf)
    // A log creates its folder. Without a change, it is not read.
    lazy val watermarks =
      if (!files.exists(new Path(checkpoint, KeyedWatermarkLog.Directory))) Continuity.none
      else new KeyedWatermarkLog(session, checkpoint).written(batch).fold(Continuity.none)(_.continuity)
    def describe(node: StatefulNode) = {
      val all = OperatorLog.describe(node)
      if (planned) all else all.copy(properties = all.properties -- node.description.planned.keys)
    }
    new Evolution(
      new OperatorLog(session, checkpoint),
      new BatchesNotBegun(session, checkpoint),
      checkpoint,
      batch,
      watermarks,
      nodes,
      describe
    )
  }
}
