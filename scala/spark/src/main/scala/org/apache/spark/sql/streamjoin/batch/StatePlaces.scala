package org.apache.spark.sql.streamjoin.batch

import java.util.UUID

import org.apache.spark.sql.streamjoin.checkpoint.Generation

/**
 * Where the state of an operator is in a run.
 *
 * @param rewritten
 *   where it was; none unless it has to be rewritten before the batch runs
 * @param isRecorded
 *   whether the checkpoint may have a generation for the batch; otherwise one that it has is of an
 *   attempt that was abandoned
 */
final private[batch] case class StatePlaces(
    current: Generation,
    rewritten: Option[Generation] = None,
    isRecorded: Boolean = true
)

private[batch] object StatePlaces {

  /**
   * The state from which a batch starts, the first of a run.
   *
   * @param recorded
   *   where the state has been. A generation that begins with this batch was written by an attempt
   *   at it that has failed since, and is as good as one written now.
   * @param partitions
   *   the number of partitions, given the one that there is
   * @param provider
   *   class of the state store's provider, given the one that there is
   * @param isSparks
   *   whether the state that there is is that of a join of Spark's
   * @param meaning
   *   what the rows mean from this batch on, if they have to be written again
   */
  def of(
      recorded: Seq[Generation],
      batch: Long,
      partitions: Int => Int,
      provider: Option[String] => Option[String],
      isSparks: Boolean = false,
      meaning: Option[String] = None
  ): StatePlaces = {
    val (begun, attempted) = recorded.partition(_.isBegunBefore(batch))
    val now = begun.last
    // A failed attempt may have left files, and tasks of it may still write some.
    val folder = s"$batch-${UUID.randomUUID().toString.take(8)}"
    val next = Generation(
      batch,
      partitions(now.partitions),
      Some(folder),
      provider = provider(now.provider),
      meaning = meaning.orElse(now.meaning)
    )
    if (next.isLike(now) && meaning.isEmpty && !isSparks) StatePlaces(now, isRecorded = false)
    else
      attempted
        .find(next.isLike)
        .fold(StatePlaces(next, Some(now), isRecorded = false))(StatePlaces(_))
  }
}
