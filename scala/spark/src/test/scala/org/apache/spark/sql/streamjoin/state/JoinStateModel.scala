package org.apache.spark.sql.streamjoin.state

import streamjoin.core.Side

/**
 * What happens to two rows that match, decided by their numbers so that the order does not matter.
 */
final private[state] case class Fate(
    flagOwn: Boolean,
    flagOther: Boolean,
    removeOwn: Boolean,
    removeOther: Boolean
)

private[state] object Fate {
  val nothing: Fate = Fate(flagOwn = false, flagOther = false, removeOwn = false, removeOther = false)
}

/** A row as a plain map keeps it. */
final private[state] case class Kept(side: Side, row: TestRow, matched: Boolean = false)

/**
 * The state of a task as plain collections, which [[JoinState]] has to agree with. It is immutable,
 * so a version is a value.
 */
final private[state] case class JoinStateModel(
    rows: Map[Long, Kept],
    limits: Map[Side, Seq[Long]],
    expiring: Map[Side, Seq[Int]]
) {
  def of(side: Side): Iterable[Kept] = rows.values.filter(_.side == side)

  def append(side: Side, row: TestRow): JoinStateModel =
    copy(rows = rows + (row.number -> Kept(side, row)))

  /** The pairs of new rows of one side with rows of the other: equal keys, times in reach. */
  def pairs(side: Side, fresh: Seq[TestRow], reach: ProbeTimeRange): Set[(Long, Long)] = {
    val others = of(side.other).groupBy(_.row.key)
    val bucketed = expiring(side.other).head
    (for {
      own <- fresh
      other <- others.getOrElse(own.key, Nil)
      if JoinStateModel.reaches(own, other.row.times(bucketed), reach)
    } yield own.number -> other.row.number).toSet
  }

  /** Whether a row of a side reaches the other expiring times of a row of the other side. */
  def inReachOfOthers(side: Side, reach: ProbeTimeRange)(own: Long, other: Long): Boolean =
    expiring(side.other).tail.zip(reach.others).forall { case (at, range) =>
      JoinStateModel.reaches(rows(own).row, rows(other).row.times(at), range)
    }

  def met(own: Long, other: Long, fate: Fate): JoinStateModel = {
    val flagged =
      Seq(own -> fate.flagOwn, other -> fate.flagOther).collect { case (number, true) =>
        number -> rows(number).copy(matched = true)
      }
    val removed = Seq(own -> fate.removeOwn, other -> fate.removeOther).collect { case (number, true) =>
      number
    }
    copy(rows = rows ++ flagged -- removed)
  }

  /** The rows that expire when the limits move on, and what is left; limits never move back. */
  def expire(side: Side, below: Seq[Long]): (Iterable[Kept], JoinStateModel) = {
    val now = limits(side).zip(below).map { case (before, next) => math.max(before, next) }
    val gone = of(side).filter { kept =>
      expiring(side).zip(now).exists { case (at, limit) => kept.row.times(at) < limit }
    }
    (gone, copy(rows = rows -- gone.map(_.row.number), limits = limits + (side -> now)))
  }

  def lowest(side: Side, at: Int): Option[Long] = of(side).map(_.row.times(expiring(side)(at))).minOption
}

private[state] object JoinStateModel {
  def empty(expiring: Map[Side, Seq[Int]]): JoinStateModel =
    JoinStateModel(
      Map.empty,
      Seq(Side.Left, Side.Right).map(s => s -> expiring(s).map(_ => Long.MinValue)).toMap,
      expiring
    )

  private def reaches(own: TestRow, time: Long, range: ProbeTimeRange): Boolean =
    range.lower.forall { case (at, by) => time >= clamp(BigInt(own.times(at)) - by) } &&
      range.upper.forall { case (at, by) => time <= clamp(BigInt(own.times(at)) + by) }

  /** Saturates at the ends of the range of longs. */
  def clamp(exact: BigInt): Long = exact.max(Long.MinValue).min(Long.MaxValue).toLong
}
