package streamjoin.core

/**
 * What a [[TemporalJoin]] holds.
 *
 * @param waiting
 *   rows of the left input
 * @param versions
 *   rows of the right input
 * @param deletions
 *   the last rows of keys that are gone, each with the time until which it is remembered
 */
final case class TemporalJoinState[A](
    waiting: Vector[A] = Vector.empty[A],
    versions: Vector[A] = Vector.empty[A],
    deletions: Vector[(A, Long)] = Vector.empty[(A, Long)],
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
 * @param remembers
 *   for how long a deletion is remembered that no row of the left input needs any more, in the unit
 *   of the event times
 */
final case class Versions[A](
    key: (Side, A) => Option[Any],
    isDelete: A => Boolean,
    order: Ordering[A],
    remembers: Long = Long.MaxValue
)

/**
 * The temporal join of two streams, a row at a time: each row of the left input meets the row of
 * its key that was valid at its time, or with other rules the closest ([[AsOf]]). It waits until
 * that is known for sure. Rows come out in the order of their times, but for those that come behind
 * what has been emitted by no more than the rule's history: these come out at once.
 *
 * What is late follows from what has been emitted, not from the watermark of the row's own input.
 * All rows before [[settled]] have come out; let `needed` be [[AsOf.needed]] of it.
 *
 *   - A row of the left input is late below [[outputWatermark]].
 *   - A version at or after `needed` is not late: some row to come may meet it.
 *   - A version below `needed` is late, unless a version is valid until the next
 *     ([[AsOf.keepsNewest]]): then rows to come meet the newest of their key, so it is late only if
 *     its key has a newer one below `needed`. It is taken if it is the newest itself, whenever it
 *     comes, so that the versions may come in any order.
 *   - A deletion that is the newest of its key counts as that for as long as it is remembered; an
 *     older version that comes later does not bring the key back.
 *
 * So nothing is dropped that a row to come should meet. What is dropped is counted, but for a
 * version with the time of the one that is there and before it in the order: no row should ever
 * have met it.
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
  private var deletions = restored.deletions
  private var received = restored.watermarks

  def snapshot: TemporalJoinState[A] = TemporalJoinState(waiting, versions, deletions, received)

  def watermark(key: Int): Long = received.getOrElse(key, Watermark.Undefined)

  /** Rows of the left input before this time have met all that they can meet. */
  def settled: Long = rule.settled(watermark(0), watermark(1))

  /** No row with an earlier time comes out any more. */
  def outputWatermark: Long = rule.output(settled)

  private def needed: Long = rule.needed(settled)

  private def time(side: Side, row: A): Option[Long] = inputs(side).time(row, side.index)

  def onRow(side: Side, row: A): Seq[Output[A]] = {
    val canMatch =
      time(side, row).isDefined && of.key(side, row).isDefined && inputs(side).matchable(row)
    side match {
      case Side.Left => onFact(row, canMatch)
      case Side.Right => if (canMatch) onVersion(row) else Nil
    }
  }

  private def onFact(row: A, canMatch: Boolean): Seq[Output[A]] = time(Side.Left, row) match {
    case None => Option.when(isLeftOuter)(Alone(Side.Left, row)).toSeq
    case Some(time) if time < outputWatermark => Seq(Late(Side.Left, row))
    case Some(time) if time < settled => resultOf(row).toSeq
    case _ =>
      // Without a match it keeps its place in the order.
      if (canMatch || isLeftOuter) waiting :+= row
      Nil
  }

  private def onVersion(row: A): Seq[Output[A]] = {
    val newest = if (validFrom(row) < needed) newestBelow(row) else None
    if (validFrom(row) >= needed) {
      versions :+= row
      Nil
    } else if (!rule.keepsNewest || newest.exists(validFrom(_) > validFrom(row))) Seq(Late(Side.Right, row))
    else {
      if (newest.forall(later.lt(_, row))) {
        versions :+= row
        forget()
      }
      Nil
    }
  }

  /** Of the key of a version, the newest that has no more than the key to be known by. */
  private def newestBelow(row: A): Option[A] =
    (versions.filter(validFrom(_) < needed) ++ deletions.map(_._1))
      .filter(of.key(Side.Right, _) == of.key(Side.Right, row))
      .maxOption(later)

  def onWatermark(key: Int, value: Long): Seq[Output[A]] = onWatermarks(Map(key -> value))

  /** Several that come at once. */
  def onWatermarks(values: Map[Int, Long]): Seq[Output[A]] = {
    val before = outputWatermark
    received ++= values.map { case (key, value) => key -> math.max(value, watermark(key)) }
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
    val (past, reachable) = versions.partition(validFrom(_) < needed)
    val remembered = deletions.filter { case (_, until) => until >= needed }.toMap
    val newest =
      if (!rule.keepsNewest) Nil
      else (past ++ remembered.keys).groupBy(of.key(Side.Right, _)).values.map(_.max(later)).toSeq
    val (gone, there) = newest.partition(of.isDelete)
    def until(deletion: A) = remembered.getOrElse(deletion, Watermark.postponed(needed, -of.remembers))
    deletions = gone.map(deletion => deletion -> until(deletion)).toVector
    versions = there.toVector ++ reachable
  }
}
