package org.apache.spark.sql.streamjoin.evolve

import java.sql.Timestamp

import scala.util.Random

import org.apache.spark.sql.functions.expr
import org.apache.spark.sql.streamjoin.Frames
import org.apache.spark.sql.{DataFrame, Row}

import streamjoin.core.{JoinType, JoinWindow, JoinWindows, Side}

/** A row of a stream; its time is in minutes. */
final private[evolve] case class ChainRow(stream: String, id: Int, time: Int, v: Int, batch: Int) {
  def row: (String, Row) = stream -> Row(s"k$id", ChangedChain.timestamp(time), v)
}

/**
 * A join of the stream `a` with another one:
 * `other.t BETWEEN a.t + lowest AND a.t + highest AND (a.v + other.v) % 3 <> but`.
 *
 * @param by
 *   another stream below, if its time counts in place of that of `a`
 */
final private[evolve] case class Link(
    other: String,
    how: String,
    lowest: Int,
    highest: Int,
    but: Int,
    by: String = "a"
) {
  def joinType: JoinType = JoinType.named(how).get

  def pair: String = s"a.id = $other.id AND (a.v + $other.v) % 3 <> $but"

  def condition: String =
    s"$pair AND $other.t BETWEEN $by.t + INTERVAL $lowest MINUTES AND $by.t + INTERVAL $highest MINUTES"

  /** @param rows those that are joined below, by stream */
  def isWithin(rows: Map[String, ChainRow], row: ChainRow): Boolean = rows.get(by).exists { own =>
    row.time - own.time >= lowest && row.time - own.time <= highest
  }

  def holds(a: ChainRow, row: ChainRow): Boolean = holds(Map("a" -> a), row)

  def holds(rows: Map[String, ChainRow], row: ChainRow): Boolean = {
    val a = rows("a")
    a.id == row.id && isWithin(rows, row) && (a.v + row.v) % 3 != but
  }
}

/** What is above the join of `a` and `b`. */
sealed private[evolve] trait Above
private[evolve] object Above {

  /** A join with the stream `c`. */
  final case class Joined(by: Link) extends Above

  /** The rows in the order of `a.t`. */
  case object Sorted extends Above

  /** The same, written as a join with a window. */
  case object Windowed extends Above
}

/**
 * @param more
 *   whether rows that are sorted have another column, which is 1000 times the first
 */
final private[evolve] case class ChainQuery(below: Link, above: Above, more: Boolean = false) {
  import Above._

  /** The columns of the output, after the time by which it is sorted. */
  private def columns: Seq[String] = {
    def of(link: Link) = if (link.joinType.filtered.isDefined) Nil else Seq(s"${link.other}.v")
    "a.v" +: (of(below) ++ (above match {
      case Joined(by) => of(by)
      case _ => Nil
    }))
  }

  def frame(input: String => DataFrame): DataFrame = {
    def joined(condition: String) = input("a").join(input("b"), expr(condition), below.how)
    val named = columns.map(column => s"$column AS ${column.head}")
    above match {
      case Joined(by) =>
        // A join of pairs keeps both times of each, whatever its bound is.
        val both = if (below.how == "inner") " AND c.t < greatest(a.t, b.t) + INTERVAL 9999 DAYS" else ""
        joined(below.condition).join(input("c"), expr(by.condition + both), by.how).selectExpr(columns: _*)
      case Sorted =>
        val added = Option.when(more)("a.v * 1000 AS more")
        val shown = named.map(_.takeRight(1))
        // Rows from before the column was added have null in it.
        val first = if (more) "IF(more <> a * 1000, -777, a)" else shown.head
        Frames
          .sorted(joined(below.condition).selectExpr("a.t AS t" +: (named ++ added): _*), "t")
          .selectExpr("unix_micros(t)" +: first +: shown.tail: _*)
      case Windowed =>
        val windows = JoinWindows(Map(Side.Right -> JoinWindow(below.highest * 60000000L, true)))
        Frames.windows(joined(below.pair), windows).selectExpr("unix_micros(rowtime)" +: columns: _*)
    }
  }
}

/** A random query of joins of `a`, its rows, and a random change of it. */
abstract private[evolve] class ChainStory(random: Random) {
  def streams: Seq[String]

  protected def one[A](of: A*): A = of(random.nextInt(of.size))

  protected def link(other: String, types: String*): Link = {
    val lowest = random.between(-20, 10)
    Link(other, one(types: _*), lowest, lowest + random.between(5, 30), random.nextInt(3))
  }

  /** No row is behind by more than the watermark's delay. */
  lazy val batches: Seq[Seq[ChainRow]] = {
    val now = scala.collection.mutable.Map(streams.map(_ -> random.between(0, 20)): _*)
    val numbers = Iterator.from(1)
    (0 until 6).map { batch =>
      streams.filter(_ => random.nextInt(4) > 0).flatMap { stream =>
        now(stream) += random.between(0, 25)
        Seq.fill(random.between(3, 7)) {
          ChainRow(stream, random.nextInt(3), now(stream) - random.between(0, 29), numbers.next(), batch)
        }
      }
    }
  }

  protected def rows(stream: String): Seq[ChainRow] = batches.flatten.filter(_.stream == stream)

  /** One row per stream that is later than all others and matches none. */
  def end: Seq[(String, Row)] = streams.zipWithIndex.map { case (stream, at) =>
    ChainRow(stream, 100 + at, 5000, ChangedChain.End, 0).row
  }
}

/** A random query, its rows, and a random change of it. */
final private[evolve] class ChangedChain(seed: Int, random: Random) extends ChainStory(random) {
  import Above._

  def this(seed: Int) = this(seed, new Random(seed * 17L))

  private val isUpper = random.nextInt(3) == 0

  val before: ChainQuery = random.nextInt(4) match {
    case 0 => ChainQuery(link("b", "inner", "left_outer", "left_anti"), Sorted, more = random.nextBoolean())
    case 1 =>
      val window = link("b", "inner", "left_outer").copy(lowest = 0, highest = random.between(5, 30))
      ChainQuery(window, Windowed)
    case _ =>
      // What a join above a changed one sees is known; when it sees a padded row is not.
      val below =
        if (isUpper) link("b", "inner") else link("b", "inner", "left_outer", "left_semi", "left_anti")
      val above = link("c", "inner", "left_outer", "left_semi", "left_anti")
      ChainQuery(below, Joined(if (isUpper && random.nextBoolean()) byOther(above) else above))
  }

  private def byOther(of: Link): Link = of.copy(by = if (of.by == "a") "b" else "a")

  private def changes(of: Link, isWindow: Boolean): Seq[(String, Link)] = {
    val less = of.copy(highest = of.highest - random.between(1, 1 + (of.highest - of.lowest)))
    val bounds = Seq(
      "narrower" -> less,
      "wider" -> of.copy(lowest = of.lowest - 10, highest = of.highest + 15),
      "later" -> of.copy(lowest = of.lowest + 4, highest = of.highest + 4)
    )
    (if (isWindow) Nil else bounds) ++
      Seq("with another condition" -> of.copy(but = (of.but + 1) % 3)) ++
      Option.when(of.how == "left_outer")("inner" -> of.copy(how = "inner"))
  }

  private val change: (String, ChainQuery) = before.above match {
    case Joined(by) if isUpper =>
      val others = changes(by, isWindow = false).flatMap { case (name, link) =>
        Seq(name -> link, s"by another time, $name" -> byOther(link))
      }
      val (name, link) = one(others :+ "by another time" -> byOther(by): _*)
      s"the upper join $name" -> before.copy(above = Joined(link))
    case Sorted if random.nextInt(3) == 0 =>
      s"the order with${if (before.more) "out" else ""} another column" -> before.copy(more = !before.more)
    case above =>
      val (name, link) = one(changes(before.below, above == Windowed): _*)
      s"the join of a and b $name" -> before.copy(below = link)
  }

  val after: ChainQuery = change._2

  /** The first batch of the changed query. */
  val at: Int = 1 + random.nextInt(5)

  /** With other partitions or without. */
  val partitions: Seq[Int] = one(Seq(2, 2), Seq(2, 3), Seq(4, 2))
  val usesRocksDb: Boolean = random.nextBoolean()
  val isRepeated: Boolean = random.nextInt(3) == 0

  override def toString: String =
    s"seed $seed: $before, ${change._1} in batch $at${if (isRepeated) ", repeated" else ""}"

  val streams: Seq[String] = if (before.above.isInstanceOf[Joined]) Seq("a", "b", "c") else Seq("a", "b")

  // The law, over all rows.

  /**
   * Rows of the output, given when a row comes that it needs.
   *
   * @param from
   *   the first batch at which it may have come
   * @param to
   *   the last one
   */
  private case class Item(values: Seq[Int], rows: Map[String, ChainRow], from: Int, to: Int)

  /** What a join emits for certain, and what it may emit. */
  private case class Law(must: Seq[Item], may: Seq[Item])

  private def joined(law: Law, was: Link, is: Link): Law = {
    def matches(item: Item, row: ChainRow, certainly: Boolean): Boolean = {
      val queries = Seq(was).filter(_ => item.from.max(row.batch) < at) ++
        Seq(is).filter(_ => item.to.max(row.batch) >= at)
      // What the old query did not need may have left.
      if (certainly)
        queries.forall(_.holds(item.rows, row)) && (queries == Seq(was) || was.isWithin(item.rows, row))
      else queries.exists(_.holds(item.rows, row))
    }
    def pairs(items: Seq[Item], certainly: Boolean) = for {
      item <- items
      row <- rows(was.other)
      if matches(item, row, certainly)
    } yield item.copy(
      item.values :+ row.v,
      item.rows + (row.stream -> row),
      from = item.from.max(row.batch),
      to = item.to.max(row.batch)
    )
    def alone(items: Seq[Item], certainly: Boolean) =
      items
        .filterNot(item => rows(was.other).exists(matches(item, _, !certainly)))
        .map(_.copy(from = 0, to = Int.MaxValue))
    def first(items: Seq[Item], certainly: Boolean) =
      items
        .filter(item => rows(was.other).exists(matches(item, _, certainly)))
        .map(_.copy(from = 0, to = Int.MaxValue))
    def padded(items: Seq[Item], certainly: Boolean) =
      alone(items, certainly).map(item => item.copy(item.values :+ ChangedChain.Null))
    def of(items: Seq[Item], certainly: Boolean): Seq[Item] = (was.how, is.how) match {
      case ("left_semi", _) => first(items, certainly)
      case ("left_anti", _) => alone(items, certainly)
      case ("inner", _) => pairs(items, certainly)
      // Rows that wait are not padded any longer.
      case (_, "inner") if certainly => pairs(items, certainly)
      case _ => pairs(items, certainly) ++ padded(items, certainly)
    }
    Law(of(law.must, certainly = true), of(law.may, certainly = false))
  }

  private val law: Law = {
    val begin = rows("a").map(a => Item(Seq(a.v), Map("a" -> a), a.batch, a.batch))
    val below = joined(Law(begin, begin), before.below, after.below)
    (before.above, after.above) match {
      case (Joined(was), Joined(is)) => joined(below, was, is)
      case _ => below
    }
  }

  val (must, may): (Set[Seq[Int]], Set[Seq[Int]]) =
    (law.must.map(_.values).toSet, law.may.map(_.values).toSet)

  /** Whether rows may be late above the changed join. */
  def mayDrop: Boolean =
    after.below.lowest < before.below.lowest || after.below.highest > before.below.highest
}

private[evolve] object ChangedChain {
  val Delay = "30 minutes"
  val End = 99999

  /** In place of a value. */
  val Null: Int = -1

  private val Base = 1717200000L

  def timestamp(minutes: Int): Timestamp = new Timestamp((Base + minutes * 60L) * 1000)
}
