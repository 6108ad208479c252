package org.apache.spark.sql.streamjoin.checkpoint

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.SparkSession

/**
 * `<checkpoint>/arranged-joins/<n>`: the joins with arrangements of a query, in plan order, each
 * written before the first batch. Such a join keeps no state, but an emitted row may be retracted
 * later, and the retraction must equal the row. A checkpoint that is older than this log gets one
 * in its next run.
 *
 * @param checkpoint
 *   root folder of the checkpoint
 */
final private[streamjoin] class ArrangedJoinLog(session: SparkSession, checkpoint: Path)
    extends DescriptionLog(session, checkpoint, ArrangedJoinLog.Directory) {

  override protected def version: Int = 1

  def recorded: Seq[Description] =
    Iterator.from(0).map(number => get(number.toLong)).takeWhile(_.isDefined).flatten.toSeq

  /**
   * Checks that the joins of the query are the recorded ones, if any are recorded. Look-ups may be
   * added and removed: they leave nothing to retract, and a row belongs to the query that runs when
   * it arrives.
   *
   * @throws org.apache.spark.sql.AnalysisException
   *   for the first join that differs
   */
  def verify(joins: Seq[Description]): Unit = {
    val before = recorded
    if (joins.nonEmpty || before.exists(_.kind == ArrangedJoinLog.Delta)) verify(joins, before)
  }

  private def verify(joins: Seq[Description], before: Seq[Description]): Unit =
    if (before.nonEmpty && !isMoreOrLess(joins, before)) {
      before.zip(joins).foreach { case (was, is) => verify(was, is) }
      if (before.size != joins.size)
        throw DescriptionLog
          .changed(checkpoint, ArrangedJoinLog.Number, before.size.toString, joins.size.toString)
    }

  /** Whether look-ups were only added, or only removed. */
  private def isMoreOrLess(joins: Seq[Description], before: Seq[Description]): Boolean =
    (joins ++ before).forall(_.kind == ArrangedJoinLog.LookUp) &&
      (ArrangedJoinLog.others(before, joins).isEmpty || ArrangedJoinLog.others(joins, before).isEmpty)

  /**
   * Called before the first batch of a run.
   *
   * @param isBegun
   *   whether a batch has been committed; until then, recorded joins are ignored
   */
  def verifyOrRecord(joins: Seq[Description], isBegun: Boolean): Unit = {
    val before = if (isBegun) recorded else Nil
    verify(joins, before)
    if (
      before.size == joins.size && before.zip(joins).forall { case (was, is) => was.difference(is).isEmpty }
    )
      before.zip(joins).zipWithIndex.foreach { case ((was, is), number) =>
        verifyAndComplete(number.toLong, was, is)
      }
    else record(joins.map(join => before.find(_.difference(join).isEmpty).getOrElse(join.recordedNow)))
  }

  private def record(joins: Seq[Description]): Unit = if (joins != recorded) {
    // Entry 0 is written last: without it the log counts as empty.
    recorded.indices.reverse.foreach(number => fileManager.delete(batchIdToPath(number.toLong)))
    joins.zipWithIndex.reverse.foreach { case (join, number) => add(number.toLong, join) }
  }
}

private[streamjoin] object ArrangedJoinLog {
  val Directory = "arranged-joins"

  /** Kinds of joins. */
  val Delta = "delta_join"
  val LookUp = "look_up"

  /** The joins that others do not have. */
  def others(joins: Seq[Description], than: Seq[Description]): Seq[Description] =
    than.foldLeft(joins) { (left, join) =>
      left.indexWhere(_.difference(join).isEmpty) match {
        case -1 => left
        case at => left.patch(at, Nil, 1)
      }
    }

  /** The property that is reported if the number of joins has changed. */
  val Number = "number_of_joins_with_arrangements"
}
