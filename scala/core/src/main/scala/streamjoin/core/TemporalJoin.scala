package streamjoin.core

/**
 * The state of a [[TemporalJoin]].
 *
 * @param waiting
 *   buffered left rows
 * @param versions
 *   buffered right rows
 * @param deletions
 *   last rows of deleted keys, each with the time until which it is remembered
 * @param settled
 *   left rows before this time have been emitted, whatever the rule is now
 * @param needed
 *   right rows before this time have left, except the newest of each key if the rule keeps it
 */
final case class TemporalJoinState[A](
    waiting: Vector[A] = Vector.empty[A],
    versions: Vector[A] = Vector.empty[A],
    deletions: Vector[(A, Long)] = Vector.empty[(A, Long)],
    watermarks: Map[Int, Long] = Map.empty,
    settled: Long = Watermark.Undefined,
    needed: Long = Watermark.Undefined
)

/**
 * How a [[TemporalJoin]] reads right rows.
 *
 * @param key
 *   key of a row of either input; `None` if a part of it is null, because a null matches nothing
 * @param isDelete
 *   whether the row deletes its key from its time on
 * @param order
 *   order of two rows with the same key and time. It depends on the rows alone; a delete comes
 *   first
 * @param remembers
 *   how long a deletion is remembered after no left row needs it, in the unit of the event times
 */
final case class Versions[A](
    key: (Side, A) => Option[Any],
    isDelete: A => Boolean,
    order: Ordering[A],
    remembers: Long = Long.MaxValue
)

/**
 * The temporal join of two streams, one row at a time: each left row matches the row of its key
 * that was valid at its time or, under another rule, the closest row ([[AsOf]]). It waits until its
 * match is certain. Rows are emitted in the order of their times, except for those that arrive
 * behind the emitted ones by no more than the rule's history: these are emitted immediately.
 *
 * Lateness depends on which rows have been emitted, not on the watermark of the row's own input.
 * All rows before [[settled]] have been emitted; let `needed` be [[AsOf.needed]] of it.
 *
 *   - A left row is late below [[outputWatermark]].
 *   - A version at or after `needed` is not late: a future row may match it.
 *   - A version below `needed` is late, unless a version is valid until the next one
 *     ([[AsOf.keepsNewest]]). In that case, future rows match the newest version of their key, so a
 *     version is late only if its key has a newer one below `needed`. The newest version is
 *     accepted whenever it arrives, so versions may arrive in any order.
 *   - A deletion counts as the newest version of its key while it is remembered: an older version
 *     that arrives later does not restore the key.
 *
 * So no row is dropped that a future row should match. Dropped rows are counted, except for a
 * version that has the same time as the stored one and precedes it in the order: no row should ever
 * have matched it.
 *
 * @param isLeftOuter
 *   whether an unmatched left row is emitted alone
 * @param inputs
 *   inputs with one event-time column each; the watermark key is 0 on the left, 1 on the right
 * @param condition
 *   further condition on a pair; a row that fails it stays unmatched and does not match another row
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

  def snapshot: TemporalJoinState[A] =
    TemporalJoinState(waiting, versions, deletions, received, settled, needed)

  def watermark(key: Int): Long = received.getOrElse(key, Watermark.Undefined)

  /** Left rows before this time have seen every right row that they can match. */
  def settled: Long = math.max(rule.settled(watermark(0), watermark(1)), restored.settled)

  /**
   * No row with an earlier time will be emitted. An earlier left row could find a version later
   * than its own, which has left.
   */
  def outputWatermark: Long =
    math.max(rule.output(settled), if (rule.keepsNewest) restored.needed else Watermark.Undefined)

  /** Right rows before this time match no row that can still be emitted, or have left. */
  private def needed: Long = math.max(rule.needed(settled), restored.needed)

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
      // Without a match, it keeps its place in the order.
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

  /** The newest version or deletion of a row's key below `needed`. */
  private def newestBelow(row: A): Option[A] =
    (versions.filter(validFrom(_) < needed) ++ deletions.map(_._1))
      .filter(of.key(Side.Right, _) == of.key(Side.Right, row))
      .maxOption(later)

  def onWatermark(key: Int, value: Long): Seq[Output[A]] = onWatermarks(Map(key -> value))

  /** Applies several watermarks at once. */
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
      // Of rows with the same time, the last one counts, in every direction.
      val next =
        after.map(validFrom).minOption.flatMap(first => after.filter(validFrom(_) == first).maxOption(later))
      val closest = (last, next) match {
        case (Some(a), Some(b)) => if (AsOf.isNextCloser(at, validFrom(a), validFrom(b))) next else last
        case _ => last.orElse(next)
      }
      closest.filterNot(of.isDelete)
    }

  private def validFrom(version: A): Long = time(Side.Right, version).get

  private val later: Ordering[A] = (a, b) => {
    val byTime = validFrom(a).compare(validFrom(b))
    if (byTime != 0) byTime else of.order.compare(a, b)
  }

  /** Drops the rows that can no longer match. */
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
