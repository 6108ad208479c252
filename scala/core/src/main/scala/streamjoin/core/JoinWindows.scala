package streamjoin.core

/**
 * A sliding window over one input of a join: a row of the other input sees the rows of this one
 * whose time is at most so much later (following) or earlier (preceding) than its own.
 *
 * @param length
 *   more than zero, in the unit of the event times (microseconds in Spark)
 */
final case class JoinWindow(length: Long, isFollowing: Boolean)

/**
 * The windows of a join, over one input or both, as a bound on the distance of two times and as the
 * rowtime of what comes out.
 *
 * The rowtime of a pair is the time of the row without a window; of two rows with windows it is the
 * later time. The rowtime of a row without a match is the latest that a match could have given it.
 *
 * The law that the order of the output rests on: whatever still comes out has a rowtime of at least
 * the smallest of both watermarks and, where rows of an input without a window wait for later ones
 * ([[waitsForKept]]), the times of those that are kept. Neither a row that expires without a match
 * nor any other pair can be earlier, because a row is kept no longer than until the other watermark
 * has passed its rowtime.
 */
final case class JoinWindows(windows: Map[Side, JoinWindow]) {
  require(windows.nonEmpty, "a window join has a window over one input at least")
  require(windows.values.forall(_.length > 0), s"a window is longer than zero, seen $windows")

  private val spans = windows.map { case (side, JoinWindow(length, isFollowing)) =>
    if ((side == Side.Right) == isFollowing) (0L, length) else (-length, 0L)
  }

  /** The least `right.time - left.time` of a pair. Two windows allow what either allows. */
  val least: Long = spans.map(_._1).min

  /** The greatest `right.time - left.time` of a pair. */
  val greatest: Long = spans.map(_._2).max

  /** The input without a window. */
  val center: Option[Side] = Side.both.find(!windows.contains(_))

  /**
   * The rows of this input are kept for later rows, which come out with the time of the kept row.
   */
  val waitsForKept: Option[Side] = center.filter(side => windows(side.other).isFollowing)

  /**
   * By how much at most the rowtime is later than the time of a side: just so for an unmatched row.
   */
  def behind(side: Side): Long = center match {
    case Some(`side`) => 0
    case Some(_) if windows(side).isFollowing => 0
    case _ => if (side == Side.Left) greatest else -least
  }

  /** The rowtime of a pair. */
  def rowtime(left: Long, right: Long): Long = center match {
    case Some(Side.Left) => left
    case Some(Side.Right) => right
    case None => math.max(left, right)
  }

  def within(left: Long, right: Long): Boolean = right - left >= least && right - left <= greatest

  /** As time bounds between the two keys. */
  def bounds(left: Int, right: Int): Seq[TimeBound] =
    Seq(TimeBound(right, left, -least), TimeBound(left, right, greatest))
}
