package org.apache.spark.sql.streamjoin.checkpoint

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.streamjoin.plans.StatefulNode

/**
 * `<checkpoint>/stream-joins/<n>`: our stateful operators in a query, by ordinal, each recorded
 * before its first batch. An operator that was added to a running query has the next number; that
 * of an operator that was removed is not used again.
 *
 * @param checkpoint
 *   root folder of the checkpoint
 */
final private[streamjoin] class OperatorLog(session: SparkSession, checkpoint: Path)
    extends DescriptionLog(session, checkpoint, OperatorLog.Directory) {

  /**
   * Version 3 has generations, changes, and operators that have taken over one of Spark's: an older
   * release would read the first description and state, so it fails. Version 4 has operators that
   * were added or removed.
   */
  override protected def version: Int = 4

  override protected def versionOf(entry: Description): Int =
    if (entry.added.isDefined || entry.removed.isDefined) 4
    else if (entry.generations.size > 1 || entry.changed.isDefined || entry.takenOver.isDefined) 3
    else 2

  override protected def readable: Set[Int] = Set(2, 3, 4)

  /** Where the state of an operator has been, the oldest first. None if it was not recorded. */
  def generations(ordinal: Int): Option[Seq[Generation]] = get(ordinal.toLong).map { recorded =>
    if (recorded.generations.isEmpty) throw unreadable(s"it has no ${Description.PartitionsKey}")
    recorded.generations
  }

  /** The same without what the operator has begun with: Spark's state, or none. */
  def states(ordinal: Int): Option[Seq[Generation]] = generations(ordinal).map { all =>
    if (recorded(ordinal).exists(of => of.takenOver.isDefined || of.added.isDefined)) all.tail else all
  }

  /** Records where the state of an operator is from a batch on. */
  def begin(ordinal: Int, generation: Generation): Unit =
    keepOnly(ordinal, _.filter(_.isBegunBefore(generation.from)) :+ generation)

  /** Forgets the generations of batches that were never committed. */
  def abandon(ordinal: Int, from: Long): Unit =
    keepOnly(ordinal, _.filter(_.isBegunBefore(from)))

  private def keepOnly(ordinal: Int, change: Seq[Generation] => Seq[Generation]): Unit =
    get(ordinal.toLong).foreach { recorded =>
      val changed = recorded.copy(generations = change(recorded.generations))
      if (changed != recorded) replace(ordinal.toLong, changed)
    }

  /** The id of an operator, by which its state is found. */
  def id(ordinal: Int): Long = idOf(ordinal, get(ordinal.toLong).flatMap(_.takenOver))

  /**
   * Records an operator in place of one of Spark's, before its first batch. It replaces the record
   * of a failed attempt.
   */
  def takeOver(node: StatefulNode, taken: TakenOver, generations: Seq[Generation]): Unit = {
    val now = OperatorLog.describe(node).copy(generations = generations, takenOver = Some(taken))
    replace(node.ordinal.toLong, now.recordedNow)
  }

  /**
   * Records an operator that is added to a running query. It replaces the record of an attempt that
   * was abandoned.
   *
   * @param batch
   *   its first one
   */
  def addToQuery(ordinal: Int, now: Description, batch: Long): Unit = {
    val isAttempted = recorded(ordinal).exists { before =>
      before.added.contains(batch) && before.difference(now).isEmpty
    }
    if (!isAttempted)
      replace(
        ordinal.toLong,
        now.copy(generations = Seq(Generation.empty), added = Some(batch)).recordedNow
      )
  }

  /** Records that the query has an operator no longer, from a batch on. */
  def removeFromQuery(ordinal: Int, batch: Long): Unit =
    update(ordinal)(_.before(batch).copy(removed = Some(batch)))

  /**
   * Forgets the operators that were added with this batch or a later one by an attempt that was
   * abandoned.
   *
   * @param kept
   *   ordinals of the operators that the query has
   */
  def forgetAdded(batch: Long, kept: Set[Int]): Unit = all.zipWithIndex.reverse.foreach {
    case (operator, ordinal) =>
      if (!kept(ordinal) && operator.added.exists(_ >= batch))
        fileManager.delete(batchIdToPath(ordinal.toLong))
  }

  /** The operators that are recorded, by ordinal, those that were removed among them. */
  def all: Seq[Description] =
    Iterator.from(0).map(number => get(number.toLong)).takeWhile(_.isDefined).flatten.toSeq

  /** Whether there are records, complete or not. */
  def isBegun: Boolean = getLatestBatchId().isDefined

  /** The operators of the query that has run the batch before this one. */
  def before(batch: Long): Map[Int, Description] = all.zipWithIndex.collect {
    case (operator, ordinal) if operator.isPartOf(batch - 1) => ordinal -> operator.before(batch)
  }.toMap

  /** The first number that no operator of an earlier batch has had. */
  def nextNumber(batch: Long): Int = all.lastIndexWhere(_.begins < batch) + 1

  /**
   * Deletes states that no batch will start from: those that a failed attempt has left, and
   * those that were rewritten so long ago that their batches cannot run again.
   *
   * @param retained
   *   the first batch that may run again
   * @param keepsSparks
   *   whether the state of Spark's own joins is kept, because the next batch needs it
   */
  def purgeStates(retained: Long, keepsSparks: Boolean): Unit = {
    val rewritten = new Path(checkpoint, Generation.Directory)
    val (removed, there) = all.zipWithIndex.partition(_._1.removed.exists(_ <= retained))
    removed.foreach { case (_, ordinal) =>
      fileManager.delete(firstState(ordinal))
      keepOnly(ordinal, _.take(1))
    }
    val operators = there.filter { case (operator, _) =>
      operator.generations.size > 1 && !(keepsSparks && operator.takenOver.isDefined)
    }
    operators.foreach { case (operator, ordinal) =>
      val generations = operator.generations
      val needed = generations.drop(generations.lastIndexWhere(_.from <= retained))
      if (needed.head.folder.isDefined)
        // Spark reads what else is in the folder.
        foldersIn(firstState(ordinal)).filter(_.getName.forall(_.isDigit)).foreach(fileManager.delete)
      // The first one stays in the record, for a release that knows no other.
      if (needed.size < generations.size - 1) keepOnly(ordinal, _.take(1) ++ needed)
    }
    val kept = all.flatMap(_.generations).flatMap(_.folder).toSet
    foldersIn(rewritten).filterNot(path => kept(path.getName)).foreach(fileManager.delete)
  }

  /** Where the first generation of an operator's state is. */
  private def firstState(ordinal: Int): Path = new Path(checkpoint, s"state/${id(ordinal)}")

  private def foldersIn(path: Path): Seq[Path] =
    if (!fileManager.exists(path)) Nil else fileManager.list(path).toSeq.filter(_.isDirectory).map(_.getPath)

  private def idOf(ordinal: Int, taken: Option[TakenOver]): Long =
    taken.fold(OperatorLog.FirstId + ordinal)(_.operator)

  /** What was recorded of an operator, if it was. */
  def recorded(ordinal: Int): Option[Description] = get(ordinal.toLong)

  /** Records an operator before its first batch. */
  def record(ordinal: Int, now: Description, partitions: Int): Unit =
    add(ordinal.toLong, now.copy(generations = Seq(Generation(0, partitions))).recordedNow): Unit

  /**
   * Called before the tasks of an operator run that has not changed: a change that begins with this
   * batch belongs to an attempt that was abandoned. Adds what an earlier release did not record.
   */
  def forgetAbandoned(ordinal: Int, now: Description, batch: Long): Unit = update(ordinal) { recorded =>
    val before = recorded.before(batch)
    before.completedBy(now).getOrElse(before)
  }

  /**
   * Records the new description of a changed operator next to the one before. That one still counts
   * until the batch is committed, so that an attempt at the batch can be abandoned, and the old
   * query can continue.
   *
   * @param batch
   *   the first one of the changed query
   */
  def change(ordinal: Int, now: Description, batch: Long): Unit =
    update(ordinal)(_.before(batch).changedBy(now, batch))

  private def update(ordinal: Int)(next: Description => Description): Unit =
    get(ordinal.toLong).foreach { recorded =>
      val updated = next(recorded)
      if (updated != recorded) replace(ordinal.toLong, updated)
    }
}

private[streamjoin] object OperatorLog {
  val Directory = "stream-joins"

  /** The id of our first operator; Spark numbers its own stateful operators from 0. */
  val FirstId = 1000L

  /** The property that is reported if the number of operators has changed. */
  val Number = "number_of_operators"

  /** The description of an operator, in the form that is recorded. */
  def describe(node: StatefulNode): Description = {
    val now = node.description
    Description(node.kind, now.all ++ now.derived, derived = now.derived.keySet)
  }
}
