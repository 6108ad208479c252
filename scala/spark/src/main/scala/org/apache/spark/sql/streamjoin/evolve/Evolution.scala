package org.apache.spark.sql.streamjoin.evolve

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streamjoin.base.{StreamJoinConf, StreamJoinErrors}
import org.apache.spark.sql.streamjoin.checkpoint.{
  BatchesNotBegun,
  CheckpointSources,
  CommittedBatches,
  Description,
  DescriptionLog,
  OperatorLog
}
import org.apache.spark.sql.streamjoin.watermark._

/**
 * How a query differs from the one that its checkpoint records, and what follows for its next
 * batch, the first of the changed query.
 *
 * {{{
 *   stream-joins/<n>       the old description | from batch N: the new one, added, or removed
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
 * @param newest
 *   the newest event times before the batch
 * @param ofQuery
 *   changes of the query as a whole
 */
final private[streamjoin] class Evolution private (
    log: OperatorLog,
    notBegun: BatchesNotBegun,
    checkpoint: Path,
    batch: Long,
    recorded: => Continuity,
    newest: NewestTimes,
    query: QueryOperators,
    val ofQuery: Seq[Change]
) {

  // Without a change, it is not read.
  private lazy val continuity = recorded.before(batch)

  private def passed: Map[Int, Passed] = continuity.passed

  /** The changes of each operator that has any, by ordinal. */
  val changes: Map[Int, Seq[Change]] =
    if (query.failure.isDefined) Map.empty
    else {
      val kept = for {
        operator <- query.kept
        recorded <- query.recorded.get(operator.ordinal)
        found = PlaceRules.moved(recorded, operator.description).toSeq ++
          ChangeRules.changes(
            recorded,
            operator.description,
            passed.get(operator.ordinal),
            continuity.gaps.getOrElse(operator.ordinal, Nil)
          )
        if found.nonEmpty
      } yield operator.ordinal -> found
      val added = query.added.map(of => of.ordinal -> Seq(PlaceRules.added(of, query, newest)))
      val removed =
        query.removed.keys.map(ordinal => ordinal -> Seq(PlaceRules.removed(ordinal, query, passed)))
      (kept ++ added ++ removed).toMap
    }

  /** What an operator was and is, if both queries have it. */
  private def descriptions(ordinal: Int): Option[(Description, Description)] =
    for (operator <- query.get(ordinal); was <- query.recorded.get(ordinal))
      yield was -> operator.description

  /** By ordinal: what becomes of the times by which the rows of a changed operator expire. */
  private lazy val times: Map[Int, BoundRules] = {
    for {
      ordinal <- changes.keys
      (was, is) <- descriptions(ordinal)
      rules <- ChangeRules.times(was, is)
    } yield ordinal -> rules
  }.toMap

  def operators: Seq[QueryOperator] = query.all

  /** The number of each operator, from the inputs up. */
  def numbers: Seq[Int] = operators.map(_.ordinal)

  /** @throws org.apache.spark.sql.AnalysisException unless `spark.streamjoin.evolve` accepts all */
  def check(): Unit = {
    val setting = SQLConf.get.getConf(StreamJoinConf.Evolve)
    // Of several, the one that needs most: the value that accepts it accepts the others, too.
    val all = (ofQuery ++ inOrder.flatMap(_._2)).sortBy(Evolution.order)
    all.headOption.filterNot(_.isAcceptedBy(setting)).foreach { worst =>
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
  private def isAttempted: Boolean = {
    val recorded = log.all.zipWithIndex.map(_.swap).toMap
    val isSame = query.all.forall { operator =>
      recorded.get(operator.ordinal).exists { before =>
        val begun = before.changed.collect { case (`batch`, next) => next }.getOrElse(before)
        begun.difference(operator.description).isEmpty && !before.removed.contains(batch)
      }
    }
    isSame && query.removed.keys.forall(recorded(_).removed.contains(batch)) &&
    recorded.forall { case (ordinal, of) => !of.added.contains(batch) || query.get(ordinal).isDefined }
  }

  /**
   * Records the changes. From now on, the sink may have rows of the batch, so only an attempt of
   * the same query may run it again, and the old query.
   */
  def begin(): Unit = {
    query.kept
      .filter(of => isChanged(of.ordinal))
      .foreach(of => log.change(of.ordinal, of.description, batch))
    query.added.foreach(of => log.addToQuery(of.ordinal, of.description, batch))
    query.removed.keys.foreach(log.removeFromQuery(_, batch))
    notBegun.begin(batch)
  }

  /**
   * Whether an attempt at the very first batch has recorded its operators. As long as no task runs,
   * the batch may be that of the attempt, which the sink skips.
   */
  private lazy val isBegun: Boolean = batch == 0 && log.isBegun

  /** Called in the first batch of a run for each operator. */
  def record(ordinal: Int, partitions: Int): Unit = if (!isBegun) recordNow(ordinal, partitions)

  private def recordNow(ordinal: Int, partitions: Int): Unit =
    for (operator <- query.get(ordinal) if !isChanged(ordinal))
      log.record(ordinal, operator.description, partitions)

  /** Called before the tasks of an operator run. */
  def forgetAbandoned(ordinal: Int, partitions: Int): Unit =
    if (isBegun) recordNow(ordinal, partitions)
    else
      for (operator <- query.get(ordinal) if !isChanged(ordinal))
        log.forgetAbandoned(ordinal, operator.description, batch)

  /** Called before the tasks of any operator run. */
  def forgetAdded(): Unit =
    if (isBegun) log.purgeAfter(-1)
    else if (operators.nonEmpty) log.forgetAdded(batch, numbers.toSet)

  private def isChanged(ordinal: Int): Boolean = changes.contains(ordinal)

  /** What the tasks of the first batch do before they read its rows. */
  def steps(ordinal: Int): Seq[StateStep] =
    accepted(ordinal).flatMap(_.steps)

  private def accepted(ordinal: Int): Seq[Effect.Accepted] =
    changes.getOrElse(ordinal, Nil).map(_.effect).collect { case effect: Effect.Accepted => effect }

  /** If the rows of an operator in state have to be written again. */
  def rewritten(ordinal: Int): Option[Rewriting] = for {
    (was, is) <- descriptions(ordinal)
    if accepted(ordinal).exists(_.isInstanceOf[Effect.Rewritten])
  } yield Rewriting(was, is, times.get(ordinal).map(_.places))

  /** By ordinal: identifies what the rows of a rewritten state mean. */
  def meanings: Map[Int, String] =
    numbers.flatMap(ordinal => rewritten(ordinal).map(ordinal -> _.is.meaning)).toMap

  /** The watermarks with which the batch begins: without what a failed attempt has added. */
  def applied(watermarks: QueryWatermarks): QueryWatermarks = {
    val moved = new MovedKeys(batch, query.kept, descriptions(_), passed)
    val kept = moved.kept(watermarks.continuity.before(batch))
    def now(ordinal: Int, reached: Passed) = {
      val renumbered = moved.passed(ordinal, reached)
      times
        .get(ordinal)
        .fold(renumbered)(rules => renumbered.copy(evicted = rules.evictedNow(reached.evicted)))
    }
    watermarks.copy(
      // The columns of a changed operator may have other keys.
      lowestKept = watermarks.lowestKept.without(changes.contains),
      continuity =
        if (changes.isEmpty) kept
        else
          kept
            .withFloors(reached.transform((ordinal, of) => OutputFloor(batch, now(ordinal, of))))
            .replacingGaps(batch)((ordinal, gap) => times.get(ordinal).fold(Option(gap))(_.gapNow(gap)))
            .withGaps(changes.transform((ordinal, _) => gaps(ordinal)).filter(_._2.nonEmpty))
    )
  }

  /**
   * What operators have passed. What is above one that was removed has received its output
   * watermark.
   */
  private def reached: Map[Int, Passed] = {
    val left = passed.filter { case (ordinal, _) => query.get(ordinal).isDefined }
    changes.toSeq
      .flatMap { case (ordinal, all) => all.map(ordinal -> _.effect) }
      .foldLeft(left) {
        case (known, (ordinal, Effect.Removed(Some(below)))) =>
          val of = known(below)
          known.updated(below, of.copy(forSpark = math.max(of.forSpark, passed(ordinal).forSpark)))
        case (known, _) => known
      }
  }

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
  def inWords: Seq[String] = for ((ordinal, all) <- inOrder; change <- all) yield {
    val isKept = query.recorded.contains(ordinal) && query.get(ordinal).isDefined
    s"Batch $batch is the first with ${if (isKept) s"another join ${ordinal + 1}: its" else "other joins:"} " +
      s"${change.what} was ${change.was}, and now it is ${change.is}. State: ${change.state}. Results: ${change.results}."
  }
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
   * For a batch that is being planned.
   *
   * @param query
   *   its operators; none if it takes over those of Spark
   * @param keys
   *   the event-time columns of the query
   * @param watermarks
   *   with which the batch begins, as recorded
   */
  def of(
      session: SparkSession,
      checkpoint: Path,
      batch: Long,
      keys: WatermarkKeys,
      watermarks: Continuity,
      query: QueryOperators
  ): Evolution = new Evolution(
    new OperatorLog(session, checkpoint),
    new BatchesNotBegun(session, checkpoint),
    checkpoint,
    batch,
    watermarks,
    newestTimes(
      keys,
      new KeyedWatermarkLog(session, checkpoint).written(batch),
      batch,
      checkpoint,
      session.asInstanceOf[ClassicSession].sessionState.newHadoopConf()
    ),
    query,
    Nil
  )

  /**
   * For the next batch of a checkpoint, before the query runs. It only reads.
   *
   * @param query
   *   the query, prepared for the optimizer
   * @param planned
   *   whether what the optimizer decides counts, which may change until the batch is planned
   */
  def ofNext(
      session: SparkSession,
      checkpoint: Path,
      hadoopConf: Configuration,
      query: LogicalPlan,
      optimized: LogicalPlan,
      planned: Boolean
  ): Evolution = {
    val batch = CommittedBatches.next(checkpoint, hadoopConf)
    val files = CheckpointFileManager.create(checkpoint, hadoopConf)
    // A log creates its folder. Without a change, it is not read.
    lazy val watermarks =
      if (!files.exists(new Path(checkpoint, KeyedWatermarkLog.Directory))) None
      else new KeyedWatermarkLog(session, checkpoint).written(batch)
    val keys = WatermarkKeys.of(query)
    val log = new OperatorLog(session, checkpoint)
    val operators = QueryOperators.ofNext(optimized, keys, log, batch, planned)
    val sources = Option
      .when(operators.added.nonEmpty || operators.removed.nonEmpty) {
        CheckpointSources.of(batch - 1, checkpoint, hadoopConf).flatMap(SourceRules.change(_, query))
      }
      .flatten
    new Evolution(
      log,
      new BatchesNotBegun(session, checkpoint),
      checkpoint,
      batch,
      watermarks.fold(Continuity.none)(_.continuity),
      newestTimes(keys, watermarks, batch, checkpoint, hadoopConf),
      operators,
      operators.failure.toSeq ++ sources
    )
  }

  private def newestTimes(
      keys: WatermarkKeys,
      recorded: => Option[KeyedWatermarks],
      batch: Long,
      checkpoint: Path,
      hadoopConf: Configuration
  ): NewestTimes = new NewestTimes(
    keys,
    recorded,
    CheckpointSources.of(batch - 1, checkpoint, hadoopConf).flatMap(_.names)
  )
}
