package streamjoin.core

/**
 * A constraint between two event-time columns: `out.time >= in.time - postpone`.
 *
 * The law that everything here rests on: while it holds for every joined row, a row whose `out`
 * time is below `watermark(in) - postpone` matches no future row of the other input, because such a
 * row has an `in` time of at least `watermark(in)`. Three things break it: a bound that does not
 * hold for every joined row (one side of an OR), a `postpone` that is not constant, and a row below
 * its watermark.
 *
 * @param out
 *   watermark key that the bound keeps: its rows leave the buffer when the bound can no longer hold
 * @param in
 *   watermark key whose watermark drives it
 * @param postpone
 *   duration in the unit of the event times (microseconds in Spark); may be negative
 */
final case class TimeBound(out: Int, in: Int, postpone: Long) {

  /** The lowest `out` time that a row with an `in` time of at least `watermark` can still match. */
  def lowest(watermark: Long): Long = Watermark.postponed(watermark, postpone)
}

/** Watermark values: an event time, or [[Watermark.Undefined]] before the first one. */
object Watermark {

  /** No watermark yet: counts as minus infinity. */
  val Undefined: Long = Long.MinValue

  /** `watermark - postpone`; undefined stays undefined, and overflow saturates. */
  def postponed(watermark: Long, postpone: Long): Long =
    if (watermark == Undefined) Undefined
    else {
      val moved = watermark - postpone
      val overflow = ((watermark ^ postpone) & (watermark ^ moved)) < 0
      if (!overflow) moved else if (postpone > 0) Undefined else Long.MaxValue
    }
}

/**
 * The watermark keys of a join's two inputs, and the time bounds between them: the postpone map of
 * the join, with the tightest bound of each pair of keys.
 *
 * @param left
 *   watermark keys of the left input
 * @param right
 *   watermark keys of the right input
 * @param bounds
 *   bounds between a key of one input and a key of the other, at least one that keeps each input
 * @param known
 *   bounds between two keys of the same input, established by a join below. They hold for all rows
 *   in which both keys are present, and include those implied by several of them, but not through a
 *   key that may be null. They give an eviction limit to a key that has no bound in this join; they
 *   never expire a row.
 * @param carried
 *   keys of values that each row carries, at no constant distance from an event time: the end of an
 *   auction. Such a value expires its row like any other key, but has no watermark, so it never
 *   drives a bound. Rows with such a key may stay in the buffer however old their event times are.
 * @throws UnboundedJoin
 *   if no bound keeps one of the inputs: its buffer would grow forever
 */
final class TimeBounds(
    val left: Set[Int],
    val right: Set[Int],
    bounds: Iterable[TimeBound],
    known: Iterable[TimeBound] = Nil,
    val carried: Set[Int] = Set.empty
) extends Serializable {
  require((left & right).isEmpty, s"a watermark key belongs to one input, seen on both: ${left & right}")

  /** The tightest bound of each pair of keys. */
  val tightest: Seq[TimeBound] = TimeBounds.tightest(bounds)

  /** The tightest constraint of each pair of keys of an input. */
  val constraints: Seq[TimeBound] = TimeBounds.tightest(known)

  tightest.foreach { bound =>
    require(
      (left(bound.out) && right(bound.in)) || (right(bound.out) && left(bound.in)),
      s"a time bound ties one input to the other, seen $bound with left $left and right $right"
    )
  }
  (tightest ++ constraints).foreach(bound =>
    require(!carried(bound.in), s"a carried value has no watermark to drive $bound")
  )
  constraints.foreach { bound =>
    require(
      (left(bound.out) && left(bound.in)) || (right(bound.out) && right(bound.in)),
      s"a constraint ties two keys of one input, seen $bound with left $left and right $right"
    )
  }
  Seq(Side.Left -> left, Side.Right -> right).foreach { case (side, keys) =>
    if (!tightest.exists(bound => keys(bound.out))) throw new UnboundedJoin(side)
  }

  /** `in -> [(out, postpone)]`, for every key of either input. */
  val postponeMap: Map[Int, Seq[(Int, Long)]] =
    (left ++ right).iterator
      .map(key => key -> tightest.filter(_.in == key).map(bound => (bound.out, bound.postpone)))
      .toMap

  /**
   * By each key whose watermark drives a bound: the keys of the times that bounds compare with it,
   * on the other side.
   */
  val compared: Map[Int, Set[Int]] = tightest
    .map(_.in)
    .distinct
    .map { key =>
      key -> tightest.collect {
        case TimeBound(`key`, in, _) => in
        case TimeBound(out, `key`, _) if !carried(out) => out
      }.toSet
    }
    .toMap

  /** The keys of a side that expire its rows, those of carried values first. */
  def bounded(side: Side): Seq[Int] = TimeBounds.bounded(tightest, keys(side), carried)

  /** The watermark keys of a side. */
  def keys(side: Side): Set[Int] = if (side == Side.Left) left else right

  /**
   * The eviction limit of a key: the largest `watermark(in) - postpone` over the bounds that keep
   * it, undefined if there is none. A row with a lower time is expired.
   *
   * @param watermark
   *   the watermark received for each key
   */
  def evictionLimit(key: Int, watermark: Int => Long): Long =
    tightest.iterator
      .filter(_.out == key)
      .map(bound => bound.lowest(watermark(bound.in)))
      .maxOption
      .getOrElse(Watermark.Undefined)

  /**
   * The keys of a side whose [[output]] watermark needs the lowest time in the buffer, because its
   * rows expire by a value that they carry.
   */
  def lowestNeeded(side: Side): Set[Int] =
    if (bounded(side).exists(carried)) keys(side) -- carried else Set.empty

  /**
   * The output watermark of a key: no later output row has a lower time. It is the smaller of the
   * received watermark and the eviction limit, which depends on watermarks alone and is therefore
   * the same in every task and after every restart. A key without its own bound takes its limit
   * from the constraints of its input's rows; if none applies, the result is undefined. For the
   * keys in [[lowestNeeded]], the lowest time in the buffer is a limit too.
   *
   * @param lowest
   *   the lowest time of a key in the buffer, `Long.MaxValue` if there is none, and
   *   [[Watermark.Undefined]] if it is unknown
   */
  def output(key: Int, watermark: Int => Long, lowest: Int => Long = _ => Watermark.Undefined): Long =
    math.min(watermark(key), limit(key, watermark, lowest))

  private def limit(key: Int, watermark: Int => Long, lowest: Int => Long): Long = {
    val byBounds =
      if (expires(key)) evictionLimit(key, watermark)
      else
        reaching(key).iterator
          .map(bound => bound.lowest(limit(bound.in, watermark, lowest)))
          .maxOption
          .getOrElse(Watermark.Undefined)
    if (isLowestNeeded(key)) math.max(byBounds, lowest(key)) else byBounds
  }

  private val isLowestNeeded = Side.both.flatMap(lowestNeeded).toSet

  /** The key whose watermark decides the [[output]] watermark of a key. */
  def decidedBy(key: Int, watermark: Int => Long, lowest: Int => Long = _ => Watermark.Undefined): Int = {
    val own = watermark(key)
    if (own <= output(key, watermark, lowest)) key
    else if (isLowestNeeded(key) && lowest(key) != Watermark.Undefined) carriedBy(key)
    else if (expires(key))
      tightest.filter(_.out == key).maxBy(bound => bound.lowest(watermark(bound.in))).in
    else reaching(key).headOption.fold(key)(bound => decidedBy(bound.in, watermark, lowest))
  }

  /** The key whose watermark expires the rows of a carried value, next to this key. */
  private def carriedBy(key: Int): Int = {
    val side = if (left(key)) left else right
    tightest.find(bound => side(bound.out) && carried(bound.out)).fold(key)(_.in)
  }

  /** Whether this join has a bound that expires rows by this key. */
  def expires(key: Int): Boolean = tightest.exists(_.out == key)

  /** The constraints that give an eviction limit to a key that has no bound of its own. */
  def reaching(key: Int): Seq[TimeBound] =
    if (expires(key)) Nil else constraints.filter(bound => bound.out == key && expires(bound.in))

  /**
   * The same bounds with weaker constraints: rows that have been kept since earlier may satisfy no
   * others.
   *
   * @param by
   *   by how much a constraint between two keys is weaker; none if it does not hold
   */
  def weaker(by: Map[(Int, Int), Option[Long]]): TimeBounds = new TimeBounds(
    left,
    right,
    tightest,
    constraints.flatMap { known =>
      by.get((known.out, known.in)).fold(Option(known)) {
        _.map(more => known.copy(postpone = Watermark.postponed(known.postpone, -more)))
      }
    },
    carried
  )
}

object TimeBounds {

  /** Of some keys, those that expire rows, those of carried values first. */
  def bounded(bounds: Seq[TimeBound], of: Int => Boolean, carried: Int => Boolean): Seq[Int] =
    bounds.map(_.out).distinct.filter(of).sortBy(key => (!carried(key), key))

  /** Of several bounds on the same pair of keys, the one with the smallest postpone time. */
  def tightest(bounds: Iterable[TimeBound]): Seq[TimeBound] =
    bounds.toSeq
      .groupBy(bound => (bound.out, bound.in))
      .valuesIterator
      .map(_.minBy(_.postpone))
      .toSeq
      .sortBy(bound => (bound.out, bound.in))
}

/** A join in which no time bound keeps one side's buffer finite. */
final class UnboundedJoin(val side: Side)
    extends IllegalArgumentException(
      s"no time bound of the form ${side.name}.time >= ${side.other.name}.time - constant: " +
        s"the rows of the ${side.name} input would be kept forever"
    )
