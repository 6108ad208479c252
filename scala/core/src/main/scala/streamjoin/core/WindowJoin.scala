package streamjoin.core

/**
 * The state of a [[WindowJoin]].
 *
 * @param waiting
 *   output of the join that waits to be emitted in order, with its rowtime
 */
final case class WindowJoinState[A](
    join: JoinState[A] = JoinState[A](),
    waiting: Vector[(Long, Output[A])] = Vector.empty[(Long, Output[A])]
)

/**
 * The window join of two streams in rowtime order, one row at a time: an [[IntervalJoin]] whose
 * output waits until no earlier row can arrive and both watermarks have reached its rowtime.
 *
 * @param inputs
 *   inputs with one event-time column each; the watermark key is 0 on the left, 1 on the right
 * @param condition
 *   condition besides the windows, left row first
 */
final class WindowJoin[A](
    joinType: JoinType,
    windows: JoinWindows,
    inputs: Map[Side, Input[A]],
    condition: (A, A) => Boolean,
    restored: WindowJoinState[A] = WindowJoinState[A]()
) {
  import Output._

  val join: IntervalJoin[A] = new IntervalJoin(
    joinType,
    new TimeBounds(Set(0), Set(1), windows.bounds(0, 1)),
    inputs,
    (left: A, right: A) =>
      time(Side.Left, left).zip(time(Side.Right, right)).exists { case (l, r) => windows.within(l, r) } &&
        condition(left, right),
    restored = restored.join
  )

  private var waiting = restored.waiting

  private def time(side: Side, row: A): Option[Long] = inputs(side).time(row, side.index)

  /** Everything that a new processor needs to continue as if nothing had happened. */
  def snapshot: WindowJoinState[A] = WindowJoinState(join.snapshot, waiting)

  def onRow(side: Side, row: A): Seq[Output[A]] = inOrder(join.onRow(side, row))

  def onWatermark(key: Int, value: Long): Seq[Output[A]] = inOrder(join.onWatermark(key, value))

  /** The earliest rowtime that can still arrive, at most the lower of the two watermarks. */
  def watermark: Long = {
    val kept = windows.waitsForKept
      // A left semi or anti join emits only left rows.
      .filter(side => joinType.filtered.isEmpty || side == Side.Left)
      .flatMap(side => join.buffered(side).flatMap(time(side, _)).minOption)
    (Seq(0, 1).map(join.watermark) ++ kept).min
  }

  private def inOrder(outputs: Seq[Output[A]]): Seq[Output[A]] = {
    val (timed, others) = outputs.partitionMap(output => rowtime(output).map(_ -> output).toLeft(output))
    waiting ++= timed
    val (due, rest) = waiting.partition(_._1 <= watermark)
    waiting = rest
    others ++ due.sortBy(_._1).map(_._2)
  }

  /** None for output that has no place in the order. */
  def rowtime(output: Output[A]): Option[Long] = output match {
    case Joined(left, right) =>
      time(Side.Left, left).zip(time(Side.Right, right)).map { case (l, r) => windows.rowtime(l, r) }
    case Alone(side, row) => time(side, row).map(_ + windows.behind(side))
    case Late(_, _) | Moved(_, _) => None
  }
}
