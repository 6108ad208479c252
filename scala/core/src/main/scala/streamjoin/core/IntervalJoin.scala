package streamjoin.core

import scala.collection.mutable

/** What a join emits, in this order. */
sealed trait Output[+A]

object Output {

  /** Two rows that match. */
  final case class Joined[A](left: A, right: A) extends Output[A]

  /** A single row: padded with nulls in an outer join, unchanged in a semi or anti join. */
  final case class Alone[A](side: Side, row: A) extends Output[A]

  /** A row below its watermark, which was dropped. */
  final case class Late[A](side: Side, row: A) extends Output[A]

  /** An output watermark that moved. */
  final case class Moved(key: Int, watermark: Long) extends Output[Nothing]
}

/**
 * How the join reads the rows of an input.
 *
 * @param time
 *   event time of a row in the column with a given watermark key; `None` is null
 * @param matchable
 *   conjuncts of the condition on this input alone: a row that fails them has no match
 */
final case class Input[A](time: (A, Int) => Option[Long], matchable: A => Boolean = (_: A) => true)

/**
 * The buffers of an [[IntervalJoin]] and the watermarks received: everything that a restart has to
 * restore.
 */
final case class JoinState[A](
    rows: Map[Side, Vector[(A, Boolean)]] = Map.empty[Side, Vector[(A, Boolean)]],
    watermarks: Map[Int, Long] = Map.empty
)

/**
 * The interval join of two streams, one row at a time over buffers in memory. It is an executable
 * specification: simple before fast, and the oracle of every other implementation.
 *
 * Each pair of rows that satisfies the condition is emitted exactly once, when the later of the two
 * arrives, for three reasons. A row is joined only with rows that arrived before it, ties included,
 * because it probes the other buffer before it is visible itself. A row is buffered as long as a
 * row that is not late can match it (the law in [[TimeBound]]). And a row that has already expired
 * when it arrives is still joined with what is buffered, but is not buffered itself.
 *
 * @param joinType
 *   which rows are emitted
 * @param bounds
 *   watermark keys and time bounds
 * @param inputs
 *   the two inputs
 * @param condition
 *   the whole join condition, left row first
 * @param maxAccumulatedRecords
 *   number of rows that both buffers together must stay below
 */
final class IntervalJoin[A](
    val joinType: JoinType,
    val bounds: TimeBounds,
    inputs: Map[Side, Input[A]],
    condition: (A, A) => Boolean,
    maxAccumulatedRecords: Long = Long.MaxValue,
    restored: JoinState[A] = JoinState[A]()
) {
  import Output._

  final private class Buffered(val row: A, var matched: Boolean)

  private val buffers: Map[Side, mutable.ArrayBuffer[Buffered]] = Side.both.map { side =>
    side -> restored.rows
      .getOrElse(side, Vector.empty)
      .map { case (row, matched) => new Buffered(row, matched) }
      .to(mutable.ArrayBuffer)
  }.toMap

  private var received: Map[Int, Long] = restored.watermarks

  private val allKeys: Seq[Int] = (bounds.left ++ bounds.right -- bounds.carried).toSeq.sorted

  /** The last watermark received for a key. */
  def watermark(key: Int): Long = received.getOrElse(key, Watermark.Undefined)

  /** The output watermark of a key. */
  def outputWatermark(key: Int): Long = bounds.output(key, watermark, lowest)

  private def lowest(key: Int): Long = {
    val side = if (bounds.left(key)) Side.Left else Side.Right
    buffered(side).flatMap(inputs(side).time(_, key)).minOption.getOrElse(Long.MaxValue)
  }

  /** The rows in a side's buffer, in order of arrival. */
  def buffered(side: Side): Seq[A] = buffers(side).iterator.map(_.row).toSeq

  /** Everything that a new processor needs to continue as if nothing had happened. */
  def snapshot: JoinState[A] =
    JoinState(
      buffers.transform((_, buffer) => buffer.iterator.map(entry => (entry.row, entry.matched)).toVector),
      received
    )

  /** Processes a row. Output watermarks move if rows leave that were the oldest ones. */
  def onRow(side: Side, row: A): Seq[Output[A]] = withMoved {
    onBatch(
      if (side == Side.Left) Seq(row) else Nil,
      if (side == Side.Right) Seq(row) else Nil,
      watermark,
      received
    )
  }

  /** Applies the watermark of a key: rows expire, then output watermarks move. */
  def onWatermark(key: Int, value: Long): Seq[Output[A]] = {
    require(allKeys.contains(key), s"no watermark key $key in this join")
    withMoved(onBatch(Nil, Nil, watermark, Map(key -> value)))
  }

  private def withMoved(emit: => Seq[Output[A]]): Seq[Output[A]] = {
    val before = allKeys.map(outputWatermark)
    val out = emit
    out ++ allKeys.zip(before).collect {
      case (key, old) if outputWatermark(key) > old => Moved(key, outputWatermark(key))
    }
  }

  /**
   * Processes a batch of rows. One set of watermarks decides which rows are late. Another, newer
   * one expires rows after the whole batch, so an expired row is still joined with the rows of its
   * own batch.
   *
   * @param late
   *   watermark of each key: a row below it is dropped
   * @param eviction
   *   watermarks received with this batch; those of other keys do not change, and none decreases
   */
  def onBatch(
      left: Iterable[A],
      right: Iterable[A],
      late: Int => Long,
      eviction: Map[Int, Long]
  ): Seq[Output[A]] = {
    val out = Seq.newBuilder[Output[A]]
    left.foreach(row => take(Side.Left, row, late, out += _))
    right.foreach(row => take(Side.Right, row, late, out += _))
    eviction.foreach { case (key, value) => received += key -> math.max(value, watermark(key)) }
    Side.both.foreach(side => evict(side, out += _))
    out.result()
  }

  private def take(side: Side, row: A, late: Int => Long, emit: Output[A] => Unit): Unit =
    if (isBelow(side, row, bounds.keys(side), late)) emit(Late(side, row))
    else if (!canMatch(side, row)) { if (joinType.pads(side)) emit(Alone(side, row)) }
    else {
      val entry = new Buffered(row, matched = false)
      probe(side, entry, emit)
      if (!(entry.matched && joinType.leavesOnMatch(side))) {
        if (buffers.valuesIterator.map(_.size.toLong).sum + 1 >= maxAccumulatedRecords)
          throw new AccumulatedRecordsExceeded(maxAccumulatedRecords)
        buffers(side) += entry
      }
    }

  private def probe(side: Side, entry: Buffered, emit: Output[A] => Unit): Unit = {
    val others = buffers(side.other)
    val leaving = mutable.Set.empty[Buffered]
    others.iterator
      .takeWhile(_ => !(entry.matched && joinType.leavesOnMatch(side)))
      .filter(other =>
        if (side == Side.Left) condition(entry.row, other.row) else condition(other.row, entry.row)
      )
      .foreach { other =>
        val (left, right) = if (side == Side.Left) (entry, other) else (other, entry)
        if (joinType.emitsPairs) emit(Joined(left.row, right.row))
        else if (joinType.emitsFirstMatch) emit(Alone(Side.Left, left.row))
        entry.matched = true
        other.matched = true
        if (joinType.leavesOnMatch(side.other)) leaving += other
      }
    if (leaving.nonEmpty) others.filterInPlace(!leaving(_))
  }

  private def evict(side: Side, emit: Output[A] => Unit): Unit = {
    val keys = bounds.bounded(side).toSet
    val limit = keys.iterator.map(key => key -> bounds.evictionLimit(key, watermark)).toMap
    buffers(side).filterInPlace { entry =>
      val expired = isBelow(side, entry.row, keys, limit)
      if (expired && !entry.matched && joinType.pads(side)) emit(Alone(side, entry.row))
      !expired
    }
  }

  private def isBelow(side: Side, row: A, keys: Set[Int], limit: Int => Long): Boolean =
    keys.exists(key => inputs(side).time(row, key).exists(_ < limit(key)))

  /** A null time in a bound makes the bound unknown for every pair. */
  private def canMatch(side: Side, row: A): Boolean =
    inputs(side).matchable(row) &&
      bounds.tightest.forall { bound =>
        Seq(bound.out, bound.in).filter(bounds.keys(side)).forall(inputs(side).time(row, _).isDefined)
      }
}

/** The buffers reached their limit. */
final class AccumulatedRecordsExceeded(val cap: Long)
    extends IllegalStateException(s"the buffers reached their cap of $cap rows")
