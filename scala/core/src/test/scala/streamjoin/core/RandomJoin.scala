package streamjoin.core

import scala.util.Random

/** A row of a random join; `times` by watermark key. */
final case class RandomRow(
    side: Side,
    label: Int,
    id: Option[Long],
    ok: Boolean,
    v: Int,
    times: Map[Int, Option[Long]]
) {
  override def toString: String = {
    val shown =
      times.toSeq.sortBy(_._1).map { case (key, time) => s"$key:${time.getOrElse("null")}" }.mkString(" ")
    s"${side.name}$label(id=${id.getOrElse("null")}${if (ok) "" else " unfit"} v=$v $shown)"
  }
}

sealed trait Event
final case class Arrival(row: RandomRow) extends Event
final case class Advance(key: Int, watermark: Long) extends Event

/**
 * A join with one or two event-time columns on each side, random bounds that limit both sides,
 * sometimes by a value that each row carries, sometimes a constraint between two columns of a side,
 * an equality, a condition on one input and a residual one.
 */
final class RandomJoin(random: Random, val joinType: JoinType) {

  val keys: Map[Side, Seq[Int]] = {
    val left = 1 + random.nextInt(2)
    Map(Side.Left -> (0 until left), Side.Right -> (left to left + random.nextInt(2)))
  }

  val constraints: Seq[TimeBound] = Side.both.map(keys).collect {
    case Seq(out, in) if random.nextBoolean() => TimeBound(out, in, random.between(-3L, 4L))
  }

  /** The value of each row that expires it, for some joins and sides. */
  val carried: Map[Side, Int] = Side.both.zip(Seq(10, 11)).filter(_ => random.nextInt(3) == 0).toMap

  private val residual = random.nextInt(4) == 0
  private val ids = 1 + random.nextInt(2)

  val bounds: TimeBounds = new TimeBounds(
    keys(Side.Left).toSet ++ carried.get(Side.Left),
    keys(Side.Right).toSet ++ carried.get(Side.Right),
    Side.both.flatMap(side => if (isAlsoBounded(side)) Some(bound(side)) else None) ++
      carried.map { case (side, key) => TimeBound(key, pick(keys(side.other)), random.between(-2L, 4L)) } ++
      Seq.fill(random.nextInt(3))(bound(pick(Side.both))),
    constraints,
    carried.values.toSet
  )

  /** A carried value may be the only thing that bounds a side. */
  private def isAlsoBounded(side: Side): Boolean = !carried.contains(side) || random.nextBoolean()

  private def bound(side: Side): TimeBound =
    TimeBound(pick(keys(side)), pick(keys(side.other)), random.between(-2L, 9L))

  private def pick[T](from: Seq[T]): T = from(random.nextInt(from.size))

  override def toString: String =
    s"${joinType.name} ${keys(Side.Left).mkString(",")} with ${keys(Side.Right).mkString(",")}, ${bounds.tightest.mkString(", ")}" +
      constraints.mkString(", where ", ", ", "") + (if (residual) ", left.v < right.v" else "")

  def processor(restored: JoinState[RandomRow] = JoinState()): IntervalJoin[RandomRow] = {
    val input = Input[RandomRow]((row, key) => row.times(key), row => row.ok && row.id.isDefined)
    new IntervalJoin(joinType, bounds, Side.both.map(_ -> input).toMap, holds, restored = restored)
  }

  /** The condition with SQL's semantics. */
  def holds(left: RandomRow, right: RandomRow): Boolean = {
    def time(key: Int) = left.times.getOrElse(key, right.times.getOrElse(key, None))
    left.ok && right.ok && left.id.exists(right.id.contains) && (!residual || left.v < right.v) &&
    bounds.tightest.forall { bound =>
      time(bound.out).zip(time(bound.in)).exists { case (out, in) => out >= in - bound.postpone }
    }
  }

  /** The output of a batch join: a nested loop. */
  def answer(rows: Seq[RandomRow]): Seq[Output[RandomRow]] = {
    val (left, right) = rows.partition(_.side == Side.Left)
    val pairs = for (l <- left; r <- right if holds(l, r)) yield Output.Joined(l, r)
    val lonely =
      Map[Side, Seq[RandomRow]](
        Side.Left -> left.diff(pairs.map(_.left)),
        Side.Right -> right.diff(pairs.map(_.right))
      )
    def alone(side: Side): Seq[Output[RandomRow]] =
      lonely(side)
        .filterNot(row => pairs.exists(p => p.left == row || p.right == row))
        .map(Output.Alone(side, _))
    joinType match {
      case JoinType.Inner => pairs
      case JoinType.LeftOuter => pairs ++ alone(Side.Left)
      case JoinType.RightOuter => pairs ++ alone(Side.Right)
      case JoinType.FullOuter => pairs ++ alone(Side.Left) ++ alone(Side.Right)
      case JoinType.LeftSemi => pairs.map(_.left).distinct.map(Output.Alone(Side.Left, _))
      case JoinType.LeftAnti => alone(Side.Left)
    }
  }

  /** Whether some row of the other side that is not late could match this one. */
  def hasPartner(row: RandomRow, watermark: Int => Long): Boolean =
    row.ok && row.id.isDefined && !hasNullInBound(row) && partnerTimes(row).forall { case (key, (from, to)) =>
      math.max(from, watermark(key)) <= to
    }

  private def hasNullInBound(row: RandomRow): Boolean =
    bounds.tightest.flatMap(bound => Seq(bound.out, bound.in)).flatMap(row.times.get).exists(_.isEmpty)

  /** Whether a row's own times allow a match at all, late or not. */
  def isConsistent(row: RandomRow): Boolean = partnerTimes(row).forall { case (_, (from, to)) => from <= to }

  /** The lowest match of a row that is not late. */
  def lowestPartner(row: RandomRow, watermark: Int => Long): RandomRow = {
    val times = partnerTimes(row).map { case (key, (from, to)) =>
      val lowest = math.max(from, watermark(key))
      key -> Option(if (lowest == Watermark.Undefined) to else lowest)
    } ++ carried.get(row.side.other).map(_ -> Option(Far))
    RandomRow(
      row.side.other,
      -1,
      row.id,
      ok = true,
      if (row.side == Side.Left) row.v + 1 else row.v - 1,
      times
    )
  }

  /**
   * For each key of the other side, the first and last time that the bounds allow a match of this
   * row.
   */
  private def partnerTimes(row: RandomRow): Map[Int, (Long, Long)] =
    keys(row.side.other).map { key =>
      val from = bounds.tightest.filter(_.out == key).flatMap(b => row.times(b.in).map(_ - b.postpone))
      val to = bounds.tightest.filter(_.in == key).flatMap(b => row.times(b.out).map(_ + b.postpone))
      key -> (from.maxOption.getOrElse(Long.MinValue), to.minOption.getOrElse(Long.MaxValue))
    }.toMap

  /**
   * Rows and watermarks in any order: ties, nulls, disorder, late rows, inputs that drift apart.
   */
  def events(): Seq[Event] = {
    val reached = scala.collection.mutable.Map.empty[Int, Long].withDefaultValue(0L)
    val all = keys(Side.Left) ++ keys(Side.Right)
    Seq.tabulate(10 + random.nextInt(40)) { label =>
      if (random.nextInt(4) == 0) {
        val key = pick(all)
        reached(key) += random.nextInt(7)
        Advance(key, reached(key))
      } else Arrival(row(label, pick(Side.both), key => reached(key) + random.between(-3L, 10L)))
    }
  }

  private def row(label: Int, side: Side, time: Int => Long): RandomRow = {
    def rarely = random.nextInt(20) == 0
    val free = keys(side).map(key => key -> Option.unless(rarely)(time(key))).toMap
    // Mostly after the event times; short for some rows, and far away for others.
    val until = carried
      .get(side)
      .map(_ -> Option.unless(rarely)(time(keys(side).head) + pick(Seq(-2L, 3L, 20L, 60L))))
    val times = constraints.filter(c => free.contains(c.out)).foldLeft(free) { (times, c) =>
      val lowest = times(c.in).map(_ - c.postpone)
      times.updated(c.out, times(c.out).map(time => lowest.fold(time)(math.max(time, _))))
    }
    RandomRow(
      side,
      label,
      Option.unless(rarely)(random.nextInt(ids).toLong),
      !rarely,
      random.nextInt(4),
      times ++ until
    )
  }

  private val Far = 900L
}

object RandomJoin {

  def apply(seed: Long, joinType: JoinType): RandomJoin = new RandomJoin(new Random(seed), joinType)

  def apply(seed: Long): RandomJoin = {
    val random = new Random(seed)
    new RandomJoin(random, JoinType.all(random.nextInt(JoinType.all.size)))
  }
}
