package org.apache.spark.sql.streamjoin.checkpoint

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.streamjoin.plans.StatefulNode

/**
 * `<checkpoint>/stream-joins/<n>`: our stateful operators in a query, by ordinal, each recorded
 * before its first batch.
 *
 * @param checkpoint
 *   root folder of the checkpoint
 */
final private[streamjoin] class OperatorLog(session: SparkSession, checkpoint: Path)
    extends DescriptionLog(session, checkpoint, OperatorLog.Directory) {

  /** Version 3 has generations: an older release would read the first of them, so it fails. */
  override protected def version: Int = 3

  override protected def versionOf(entry: Description): Int = if (entry.generations.size > 1) 3 else 2

  override protected def readable: Set[Int] = Set(2, 3)

  /** Where the state of an operator has been, the oldest first. None if it was not recorded. */
  def generations(ordinal: Int): Option[Seq[Generation]] = get(ordinal.toLong).map { recorded =>
    if (recorded.generations.isEmpty) throw unreadable(s"it has no ${Description.PartitionsKey}")
    recorded.generations
  }

  /** Records where the state of an operator is from a batch on. */
  def begin(ordinal: Int, generation: Generation): Unit =
    keepOnly(
      ordinal,
      _.filter(before => before.from < generation.from || before.folder.isEmpty) :+ generation
    )

  /** Forgets the generations of batches that were never committed. */
  def abandon(ordinal: Int, from: Long): Unit =
    keepOnly(ordinal, _.filter(generation => generation.from < from || generation.folder.isEmpty))

  private def keepOnly(ordinal: Int, change: Seq[Generation] => Seq[Generation]): Unit =
    get(ordinal.toLong).foreach { recorded =>
      val changed = recorded.copy(generations = change(recorded.generations))
      if (changed != recorded) replace(ordinal.toLong, changed)
    }

  /** The operators that are recorded, by ordinal. */
  private def all: Seq[Description] =
    Iterator.from(0).map(number => get(number.toLong)).takeWhile(_.isDefined).flatten.toSeq

  /**
   * Deletes states that no batch will start from: those that a failed attempt has left, and
   * those that were rewritten so long ago that their batches cannot run again.
   *
   * @param retained
   *   the first batch that may run again
   */
  def purgeStates(retained: Long): Unit = {
    val rewritten = new Path(checkpoint, Generation.Directory)
    val operators = all.map(_.generations).zipWithIndex.filter(_._1.size > 1)
    operators.foreach { case (generations, ordinal) =>
      val needed = generations.drop(generations.lastIndexWhere(_.from <= retained))
      if (needed.head.folder.isDefined) {
        val first = new Path(checkpoint, s"state/${OperatorLog.FirstId + ordinal}")
        // Spark reads what else is in the folder.
        foldersIn(first).filter(_.getName.forall(_.isDigit)).foreach(fileManager.delete)
      }
      // The first one stays in the record, for a release that knows no other.
      if (needed.size < generations.size - 1) keepOnly(ordinal, _.take(1) ++ needed)
    }
    val kept = all.flatMap(_.generations).flatMap(_.folder).toSet
    foldersIn(rewritten).filterNot(path => kept(path.getName)).foreach(fileManager.delete)
  }

  private def foldersIn(path: Path): Seq[Path] =
    if (!fileManager.exists(path)) Nil else fileManager.list(path).toSeq.filter(_.isDirectory).map(_.getPath)

  /** What was recorded of an operator, if it was. */
  def recorded(ordinal: Int): Option[Description] = get(ordinal.toLong)

  /** Checks the query's description of an operator against the record, if there is one. */
  def verifyWritten(node: StatefulNode): Unit =
    get(node.ordinal.toLong).foreach(verify(_, Description(node.kind, node.description.written)))

  /** Called before the first batch of a run. */
  def verifyOrRecord(node: StatefulNode, partitions: Int): Unit = {
    val now = Description(node.kind, node.description.all, generations = Seq(Generation(0, partitions)))
    val number = node.ordinal.toLong
    if (!add(number, now.recordedNow)) get(number).foreach(verifyAndComplete(number, _, now))
  }
}

private[streamjoin] object OperatorLog {
  val Directory = "stream-joins"

  /** The id of our first operator; Spark numbers its own stateful operators from 0. */
  val FirstId = 1000L

  /** The property that is reported if the number of operators has changed. */
  val Number = "number_of_operators"
}
