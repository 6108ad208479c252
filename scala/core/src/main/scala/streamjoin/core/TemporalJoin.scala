package streamjoin.core

/**
 * What a [[TemporalJoin]] holds.
 *
 * @param waiting
 *   rows of the left input
 * @param versions
 *   rows of the right input
 */
final case class TemporalJoinState[A](
    waiting: Vector[A] = Vector.empty[A],
    versions: Vector[A] = Vector.empty[A],
    watermarks: Map[Int, Long] = Map.empty
)

/**
 * What a [[TemporalJoin]] has to know of the rows of its right input.
 *
 * @param key
 *   of a row of either input; `None` where a part of it is null, which meets nothing
 * @param isDelete
 *   the key has no row from the time of this one on
 * @param order
 *   which of two rows of one key and one time comes later. It looks at nothing but the rows; a
 *   delete comes first
 */
final case class Versions[A](key: (Side, A) => Option[Any], isDelete: A => Boolean, order: Ordering[A])

/**
 * The temporal join of two streams, a row at a time: each row of the left input meets the row of
 * its key that was valid at its time, or with other rules the closest ([[AsOf]]). It waits until
 * that is known for sure. Rows come out in the order of their times, but for those that come behind
 * their watermark by no more than the rule's history: these come out at once.
 *
 * @param isLeftOuter
 *   a row that meets nothing comes out alone
 * @param inputs
 *   with one event-time column each; the watermark key is 0 on the left, 1 on the right
 * @param condition
 *   what a pair has to satisfy besides; it does not make a row meet another one
 */
final class TemporalJoin[A](
    isLeftOuter: Boolean,
    rule: AsOf,
    inputs: Map[Side, Input[A]],
    of: Versions[A],
    condition: (A, A) => Boolean = (_: A, _: A) => true,
    restored: TemporalJoinState[A] = TemporalJoinState[A]()
) {
  import Output._

  private var waiting = restored.waiting
  private var versions = restored.versions
  private var received = restored.watermarks

  def snapshot: TemporalJoinState[A] = TemporalJoinState(waiting, versions, received)

  def watermark(key: Int): Long = received.getOrElse(key, Watermark.Undefined)

  /** Rows of the left input before this time have met all that they can meet. */
  def settled: Long = rule.settled(watermark(0), watermark(1))

  /** No row with an earlier time comes out any more. */
  def outputWatermark: Long = rule.output(settled)

  private def time(side: Side, row: A): Option[Long] = inputs(side).time(row, side.index)

  private def lateBelow(side: Side): Long =
    Watermark.postponed(watermark(side.index), if (side == Side.Left) rule.history else 0)

  def onRow(side: Side, row: A): Seq[Output[A]] =
    if (time(side, row).exists(_ < lateBelow(side))) Seq(Late(side, row))
    else {
      val canMatch =
        time(side, row).isDefined && of.key(side, row).isDefined && inputs(side).matchable(row)
      (side, canMatch) match {
        case (Side.Left, _) if time(side, row).isEmpty => Option.when(isLeftOuter)(Alone(side, row)).toSeq
        case (Side.Left, _) if time(side, row).exists(_ < settled) => resultOf(row).toSeq
        case (Side.Left, true) => waiting :+= row; Nil
        // It keeps its place in the order.
        case (Side.Left, false) if isLeftOuter => waiting :+= row; Nil
        case (Side.Right, true) => versions :+= row; Nil
        case _ => Nil
      }
    }

  def onWatermark(key: Int, value: Long): Seq[Output[A]] = {
    val before = outputWatermark
    received += key -> math.max(value, watermark(key))
    val (due, rest) = waiting.partition(time(Side.Left, _).get < settled)
    waiting = rest
    val out = due.sortBy(time(Side.Left, _)).flatMap(resultOf)
    forget()
    out ++ Option.when(outputWatermark > before)(Moved(0, outputWatermark))
  }

  private def resultOf(row: A): Option[Output[A]] =
    met(row).filter(condition(row, _)) match {
      case Some(version) => Some(Joined(row, version))
      case None => Option.when(isLeftOuter)(Alone(Side.Left, row))
    }

  private def met(row: A): Option[A] =
    if (!inputs(Side.Left).matchable(row)) None
    else {
      val at = time(Side.Left, row).get
      val candidates = for {
        key <- of.key(Side.Left, row).toSeq
        version <- versions
        if of.key(Side.Right, version).contains(key) && rule.allows(at, validFrom(version))
      } yield version
      val (before, after) = candidates.partition(validFrom(_) <= at)
      val last = before.maxOption(later)
      // Of those with one time the last counts, whichever way it is looked at.
      val next =
        after.map(validFrom).minOption.flatMap(first => after.filter(validFrom(_) == first).maxOption(later))
      val closest = (last, next) match {
        case (Some(a), Some(b)) => if (validFrom(b) - at < at - validFrom(a)) next else last
        case _ => last.orElse(next)
      }
      closest.filterNot(of.isDelete)
    }

  private def validFrom(version: A): Long = time(Side.Right, version).get

  private val later: Ordering[A] = (a, b) => {
    val byTime = validFrom(a).compare(validFrom(b))
    if (byTime != 0) byTime else of.order.compare(a, b)
  }

  /** Drops the rows that none can meet any more. */
  private def forget(): Unit = {
    val limit = rule.needed(settled)
    val (past, reachable) = versions.partition(validFrom(_) < limit)
    val newest =
      if (!rule.keepsNewest) Nil
      else past.groupBy(of.key(Side.Right, _)).values.map(_.max(later)).filterNot(of.isDelete)
    versions = newest.toVector ++ reachable
  }
}
