package org.apache.spark.sql.streamjoin.checkpoint

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.plans.logical.{Join, LogicalPlan}
import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
import org.apache.spark.sql.streamjoin.analysis.StreamJoinType
import org.apache.spark.sql.streamjoin.plans.StatefulNode

/**
 * A join of Spark's that one of our operators has taken over.
 *
 * @param operator
 *   id of Spark's operator, which ours keeps: Spark compares the ids and names in a checkpoint with
 *   those of the query, and numbers its other operators along with its joins
 * @param newest
 *   the newest version of Spark's stores when our first batch was planned
 */
final private[streamjoin] case class TakenOver(operator: Long, newest: Long)

/**
 * Whose the state of the joins in a checkpoint is, Spark's or ours. The commit of a batch does not
 * say who ran it, so the version of Spark's stores decides: each batch of Spark's writes one.
 *
 * {{{
 *   batch                     5      6      7      newest version of Spark's stores
 *   run by Spark              x                    6
 *   planned by us, fails             x             6: recorded as taken over from 6, by version 6
 *   run by Spark                     x      x      8: newer than recorded, so all of it is Spark's
 * }}}
 */
final private[streamjoin] class TakeOver(session: SparkSession, checkpoint: Path) {
  private val hadoopConf = session.asInstanceOf[ClassicSession].sessionState.newHadoopConf()
  private val files = CheckpointFileManager.create(checkpoint, hadoopConf)
  private lazy val committed = CommittedBatches.last(checkpoint, hadoopConf)

  val joins = new SparksJoins(session, checkpoint)

  // A log creates its folder.
  private lazy val recorded: Seq[Description] =
    if (!files.exists(new Path(checkpoint, OperatorLog.Directory))) Nil
    else new OperatorLog(session, checkpoint).all

  /** Whether the next batch starts from the state of Spark's own joins. */
  lazy val isDue: Boolean =
    if (recorded.isEmpty) joins.exist
    else recorded.exists(_.takenOver.isDefined) && !recorded.forall(isOurs)

  private def isOurs(operator: Description): Boolean = operator.takenOver.forall { taken =>
    !isVoid(taken) && firstBatch(operator).exists(first => committed.exists(_ >= first))
  }

  private def firstBatch(operator: Description): Option[Long] = operator.generations.lift(1).map(_.from)

  /** Whether Spark has run a batch since. */
  private def isVoid(taken: TakenOver): Boolean = joins.newestVersion(taken.operator).exists(_ > taken.newest)

  /**
   * The state that our failed attempt at the first batch has written.
   *
   * @param query
   *   the operator, if an attempt of another query does not count
   */
  def attempted(ordinal: Int, batch: Long, query: Option[Description] = None): Seq[Generation] = recorded
    .lift(ordinal)
    .filter(_.takenOver.exists(!isVoid(_)))
    .filter(recorded => query.forall(recorded.difference(_).isEmpty))
    .fold(Seq.empty[Generation])(_.generations.drop(1))
    .filter(_.from == batch)

  /** The batch that Spark's own join has planned and not committed. */
  lazy val pending: Option[Long] = for {
    batch <- CommittedBatches.lastPlanned(checkpoint, hadoopConf)
    if committed.forall(_ < batch) && recorded.indices.forall(attempted(_, batch).isEmpty)
  } yield batch

  /**
   * The join of Spark's that each of our operators takes over, by ordinal.
   *
   * @param optimized
   *   the query
   */
  def sources(optimized: LogicalPlan): Map[Int, SparksJoin] = {
    val inQuery = TakeOver.joinsIn(optimized)
    assert(inQuery.size == joins.all.size, s"${inQuery.size} joins in place of ${joins.all.size}")
    inQuery.zip(joins.all).collect { case (Some(ordinal), join) => ordinal -> join }.toMap
  }
}

private[streamjoin] object TakeOver {

  /** The joins in the order in which Spark numbers them: the ordinal, or none if Spark runs it. */
  def joinsIn(optimized: LogicalPlan): Seq[Option[Int]] = optimized.collect {
    case node: StatefulNode => Some(node.ordinal)
    case join: Join if StreamJoinType.isStreamJoin(join) => None
  }
}
