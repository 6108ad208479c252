package org.apache.spark.sql.streamjoin.watermark

import streamjoin.core.Watermark

/**
 * What a changed query has to know of one of its operators, from its first batch on. A later change
 * may replace it; if that change is abandoned, it counts again.
 */
sealed private[streamjoin] trait OfChange[A] {

  /** The first batch of the changed query. */
  def from: Long

  /** The first batch of a later change, from which on another one counts in its place. */
  def until: Option[Long]

  protected def copied(until: Option[Long]): A

  /** Whether no later change has replaced it. */
  final def counts: Boolean = until.isEmpty

  final def replacedFrom(batch: Long): A = copied(Some(batch))

  /** Without what begins with a batch, or with a later one. */
  final def before(batch: Long): Option[A] = Option.when(from < batch)(copied(until.filter(_ < batch)))
}

/**
 * An operator does not go back behind what it had passed when the query was changed. A row that it
 * emits below the floor is late for the operators above, which count it.
 */
final private[streamjoin] case class OutputFloor(from: Long, passed: Passed, until: Option[Long] = None)
    extends OfChange[OutputFloor] {
  override protected def copied(until: Option[Long]): OutputFloor = copy(until = until)
}

/**
 * Matches that the results may lack after a change, because the rows were not kept before it.
 *
 * @param key
 *   a watermark key of the operator
 * @param below
 *   the gap is closed once the operator evicts rows below this time of that column, in microseconds
 * @param completeFrom
 *   results are complete from this event time on, in microseconds
 */
final private[streamjoin] case class Gap(
    from: Long,
    key: Int,
    below: Long,
    completeFrom: Long,
    until: Option[Long] = None
) extends OfChange[Gap] {
  override protected def copied(until: Option[Long]): Gap = copy(until = until)
}

/**
 * Rows from before a change satisfy weaker constraints between their times than those that arrive
 * now. For as long as an operator keeps such rows, it may emit them.
 *
 * @param key
 *   a watermark key by which they leave; none if they may stay
 * @param below
 *   they have left once the operator evicts rows below this time of that column, in microseconds;
 *   none while operators below may still emit such rows
 * @param by
 *   by how much the constraint of a pair of watermark keys is weaker, in microseconds; none if they
 *   satisfy none
 */
final private[streamjoin] case class WeakerConstraints(
    from: Long,
    key: Option[Int],
    below: Option[Long],
    by: Map[(Int, Int), Option[Long]],
    until: Option[Long] = None
) extends OfChange[WeakerConstraints] {
  override protected def copied(until: Option[Long]): WeakerConstraints = copy(until = until)

  /**
   * What is left after a batch, if they leave.
   *
   * @param evicted
   *   the time of the column below which they have left
   * @param newest
   *   no row with a later time has arrived; none if none has
   * @param areMoreBelow
   *   whether operators below may have emitted such rows in the batch
   */
  def after(evicted: Option[Long], newest: Option[Long], areMoreBelow: Boolean): Option[WeakerConstraints] =
    if (below.exists(limit => evicted.exists(_ >= limit))) None
    else if (below.isDefined || areMoreBelow) Some(this)
    else newest.map(time => copy(below = Some(Watermark.postponed(time, -Continuity.ToMillisecond))))
}
