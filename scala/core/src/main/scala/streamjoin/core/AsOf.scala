package streamjoin.core

/**
 * Which right row a left row matches: the closest one before its time, after it, or on either side.
 *
 * @param direction
 *   where it looks for a match
 * @param allowsExact
 *   whether a row of the same time matches
 * @param tolerance
 *   largest distance between the two times, in the unit of the event times
 * @param history
 *   how far behind its watermark a left row may arrive and still match the row that it would have
 *   matched on time. Right rows are kept that much longer.
 */
final case class AsOf(
    direction: AsOf.Direction = AsOf.Backward,
    allowsExact: Boolean = true,
    tolerance: Option[Long] = None,
    history: Long = 0
) {
  import AsOf._

  require(tolerance.forall(_ >= 0), s"a tolerance must not be negative, seen $tolerance")
  require(isBounded, s"$direction needs a tolerance")
  require(history >= 0 && (history == 0 || keepsNewest), s"a history of $history with $direction")

  /** Without a tolerance, a row could wait forever for a later one. */
  private def isBounded: Boolean = direction == Backward || tolerance.isDefined

  def allows(left: Long, right: Long): Boolean = {
    val isThere = direction match {
      case Backward => right <= left
      case Forward => right >= left
      case Nearest => true
    }
    isThere && (allowsExact || left != right) && tolerance.forall(math.abs(left - right) <= _)
  }

  /** How far ahead of its own time a left row looks. */
  def ahead: Long = if (direction == Backward) 0 else tolerance.get

  /** How far back from its own time a left row looks, at most. */
  def behind: Long = if (direction == Forward) 0 else tolerance.getOrElse(Long.MaxValue)

  /**
   * Left rows before this time have seen every right row that they can match, and no earlier left
   * row can still arrive.
   *
   * @param left
   *   watermark of the left input
   */
  def settled(left: Long, right: Long): Long =
    if (right == Watermark.Undefined) Watermark.Undefined else math.min(left, right - ahead)

  /**
   * Right rows before this time match no row that is emitted from `settled` on, except the newest
   * of each key if [[keepsNewest]].
   */
  def needed(settled: Long): Long = direction match {
    case _ if settled == Watermark.Undefined => Watermark.Undefined
    case Forward => settled
    case _ => Watermark.postponed(settled, tolerance.getOrElse(history))
  }

  /**
   * No row with an earlier time will be emitted.
   *
   * @param settled
   *   result of `settled`
   */
  def output(settled: Long): Long = Watermark.postponed(settled, history)

  /** Whether a right row matches until the next one of its key arrives. */
  def keepsNewest: Boolean = direction == Backward && tolerance.isEmpty
}

object AsOf {
  sealed trait Direction
  case object Backward extends Direction
  case object Forward extends Direction

  case object Nearest extends Direction

  val directions: Seq[Direction] = Seq(Backward, Forward, Nearest)

  /** Whether, around a time, the later right row is the closer one; the earlier one wins a draw. */
  def isNextCloser(at: Long, last: Long, next: Long): Boolean = next - at < at - last
}
