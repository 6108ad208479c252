package streamjoin.core

/**
 * Which row of the right input a row of the left one meets: of those on one side of its time, or on
 * either, the closest.
 *
 * @param direction
 *   where it looks
 * @param allowsExact
 *   a row of the same time counts
 * @param tolerance
 *   how far apart the times may be, in the unit of the event times
 * @param history
 *   how far behind its watermark a row of the left input may come and still meet what it would have
 *   met in time. Rows of the right input are kept for so much longer.
 */
final case class AsOf(
    direction: AsOf.Direction = AsOf.Backward,
    allowsExact: Boolean = true,
    tolerance: Option[Long] = None,
    history: Long = 0
) {
  import AsOf._

  require(tolerance.forall(_ >= 0), s"a tolerance is not negative, seen $tolerance")
  require(isBounded, s"$direction needs a tolerance")
  require(history >= 0 && (history == 0 || keepsNewest), s"a history of $history with $direction")

  /** Without a tolerance a row could wait for a later one for ever. */
  private def isBounded: Boolean = direction == Backward || tolerance.isDefined

  def allows(left: Long, right: Long): Boolean = {
    val isThere = direction match {
      case Backward => right <= left
      case Forward => right >= left
      case Nearest => true
    }
    isThere && (allowsExact || left != right) && tolerance.forall(math.abs(left - right) <= _)
  }

  /** Rows of the right input up to this time are still looked at. */
  def ahead: Long = if (direction == Backward) 0 else tolerance.get

  /** So far back from its own time a row of the left input looks, at most. */
  def behind: Long = if (direction == Forward) 0 else tolerance.getOrElse(Long.MaxValue)

  /**
   * Rows of the left input before this time have met all that they can meet, and no earlier one
   * comes any more.
   *
   * @param left
   *   the watermark of the left input
   */
  def settled(left: Long, right: Long): Long =
    if (right == Watermark.Undefined) Watermark.Undefined else math.min(left, right - ahead)

  /**
   * Rows of the right input before this time are met by none that comes out from `settled` on, but
   * for the newest of each key where [[keepsNewest]].
   */
  def needed(settled: Long): Long = direction match {
    case _ if settled == Watermark.Undefined => Watermark.Undefined
    case Forward => settled
    case _ => Watermark.postponed(settled, tolerance.getOrElse(history))
  }

  /**
   * No row with an earlier time comes out any more.
   *
   * @param settled
   *   as above
   */
  def output(settled: Long): Long = Watermark.postponed(settled, history)

  /** A row of the right input is met until the next of its key comes. */
  def keepsNewest: Boolean = direction == Backward && tolerance.isEmpty
}

object AsOf {
  sealed trait Direction
  case object Backward extends Direction
  case object Forward extends Direction

  /** Of two that are as close, the one before. */
  case object Nearest extends Direction

  val directions: Seq[Direction] = Seq(Backward, Forward, Nearest)
}
