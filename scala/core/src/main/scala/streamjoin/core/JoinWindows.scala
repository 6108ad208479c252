package streamjoin.core

/**
 * A sliding window over one input of a join: a row of the other input matches the rows of this
 * input that are at most `length` later (following) or earlier (preceding).
 *
 * @param length
 *   more than zero, in the unit of the event times (microseconds in Spark)
 */
final case class JoinWindow(length: Long, isFollowing: Boolean)

/**
 * The windows of a join, over one input or both, as bounds on the distance between two times and as
 * the rowtime of the output.
 *
 * The rowtime of a pair is the time of the row without a window; if both have one, it is the later
 * time. The rowtime of an unmatched row is the latest that a match could have given it.
 *
 * The law behind the order of the output: a row that has not been emitted yet has a rowtime of at
 * least the smaller of the two watermarks. If rows of an input without a window wait for later rows
 * ([[waitsForKept]]), the times of the buffered rows also limit it. Neither a row that expires
 * unmatched nor any other pair can be earlier, because a row is buffered only until the other
 * watermark has passed its rowtime.
 */
final case class JoinWindows(windows: Map[Side, JoinWindow]) {
  require(windows.nonEmpty, "a window join needs a window over at least one input")
  require(windows.values.forall(_.length > 0), s"a window must be longer than zero, seen $windows")

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
   * The input whose rows wait for later rows, which are emitted with the time of the waiting row.
   */
  val waitsForKept: Option[Side] = center.filter(side => windows(side.other).isFollowing)

  /** How much later than a side's time the rowtime is, at most; exactly so for an unmatched row. */
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

  /** `right 10 following`: part of a checkpoint, where it must not change. */
  override def toString: String = windows.toSeq
    .sortBy { case (side, _) => side.index }
    .map { case (side, JoinWindow(length, isFollowing)) =>
      s"${side.name} $length ${if (isFollowing) "following" else "preceding"}"
    }
    .mkString(", ")

  /** The windows as time bounds between two watermark keys. */
  def bounds(left: Int, right: Int): Seq[TimeBound] =
    Seq(TimeBound(right, left, -least), TimeBound(left, right, greatest))
}
