package org.apache.spark.sql.streamjoin.evolve

import scala.util.Random

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.functions.expr
import org.apache.spark.sql.streamjoin.Frames

/**
 * A query of the streams `a`, `b` and `c`: the join of the first two, and above it that with the
 * third one, or next to it the rows of the third one.
 *
 * @param upper
 *   none if rows are emitted as they come
 */
final private[evolve] case class AddedQuery(lower: Link, upper: Option[Above]) {
  import Above._

  private def isFiltered(link: Link) = link.joinType.filtered.isDefined

  private def second = if (isFiltered(lower)) "CAST(NULL AS INT)" else "b.v"

  def frame(input: String => DataFrame): DataFrame = {
    val joined = input("a").join(input("b"), expr(lower.condition), lower.how)
    val none = "CAST(NULL AS INT)"
    def alongside(rows: DataFrame) = rows.union(input("c").selectExpr(none, none, "v"))
    upper match {
      case Some(Joined(by)) =>
        joined
          .join(input("c"), expr(by.condition), by.how)
          .selectExpr(
            "a.v AS x",
            s"$second AS y",
            s"${if (isFiltered(by)) "CAST(NULL AS INT)" else "c.v"} AS z"
          )
      case Some(_) =>
        val timed = joined.selectExpr("a.t AS t", "a.v AS x", s"$second AS y")
        alongside(Frames.sorted(timed, "t").selectExpr("x", "y", s"$none AS z"))
      case None => alongside(joined.selectExpr("a.v AS x", s"$second AS y", s"$none AS z"))
    }
  }
}

/** A random query, its rows, and the upper join, or an order of time, added to it or removed. */
final private[evolve] class AddedStory(seed: Int, random: Random) extends ChainStory(random) {
  import Above._
  import ChangedChain.Null

  def this(seed: Int) = this(seed, new Random(seed * 23L))

  val isAdded: Boolean = seed % 2 == 0
  private val (lower, upper) = (
    link("b", "inner", "left_semi"),
    if (random.nextInt(4) == 0) Sorted
    else Joined(link("c", "inner", "left_outer", "right_outer", "full_outer", "left_semi", "left_anti"))
  )
  private val (with1, with2) = (AddedQuery(lower, None), AddedQuery(lower, Some(upper)))
  val (before, after): (AddedQuery, AddedQuery) = if (isAdded) (with1, with2) else (with2, with1)

  /** The first batch of the changed query. */
  val at: Int = 1 + random.nextInt(5)

  val attempt: Attempt = one(Plain, Repeated, Failed, Abandoned)
  val partitions: Seq[Int] = one(Seq(2, 2), Seq(2, 3), Seq(4, 2))
  val usesRocksDb: Boolean = random.nextBoolean()

  override def toString: String =
    s"seed $seed: $lower, $upper ${if (isAdded) "added" else "removed"} in batch $at, $attempt"

  val streams: Seq[String] = Seq("a", "b", "c")

  // The law, over all rows.

  /** A row of the lower join, emitted in a batch. */
  private case class Item(a: ChainRow, b: Option[ChainRow], batch: Int) {
    def with3(c: Option[ChainRow]): Seq[Int] = Seq(a.v, b.fold(Null)(_.v), c.fold(Null)(_.v))
  }

  private val items: Seq[Item] = rows("a").flatMap { a =>
    val matches = rows("b").filter(lower.holds(a, _))
    if (lower.how == "inner") matches.map(b => Item(a, Some(b), a.batch.max(b.batch)))
    else matches.map(_.batch).minOption.map(first => Item(a, None, a.batch.max(first))).toSeq
  }

  /** The rows that a query is certain to emit if it gets these, and those that it may emit. */
  private def law(of: AddedQuery, items: Seq[Item], ofC: Seq[ChainRow], ends: Boolean) = of.upper match {
    case Some(Joined(by)) =>
      val pairs = for (item <- items; c <- ofC if by.holds(item.a, c)) yield item -> c
      val (matched, unmatched) = items.partition(item => pairs.exists(_._1 == item))
      val alone = ofC.filterNot(c => pairs.exists(_._2 == c)).map(c => Seq(Null, Null, c.v))
      val padded = unmatched.map(_.with3(None))
      val certain = by.how match {
        case "left_semi" => matched.map(_.with3(None))
        case "left_anti" => Nil
        case _ => pairs.map { case (item, c) => item.with3(Some(c)) }
      }
      val later = by.how match {
        case "left_outer" | "left_anti" => padded
        case "right_outer" => alone
        case "full_outer" => padded ++ alone
        case _ => Nil
      }
      // What waits when the join is removed is never emitted.
      if (ends) (certain ++ later, Nil) else (certain, later)
    case other =>
      val (rows, alone) = (items.map(_.with3(None)), ofC.map(c => Seq(Null, Null, c.v)))
      // The same holds for rows that wait for their turn.
      if (other.isEmpty || ends) (rows ++ alone, Nil) else (alone, rows)
  }

  private val first: Int = if (attempt == Abandoned) Int.MaxValue else at

  private val (old, changed) = {
    val (itemsBefore, itemsAfter) = items.partition(_.batch < first)
    val (before1, after1) = rows("c").partition(_.batch < first)
    (
      law(before, itemsBefore, before1, ends = attempt == Abandoned),
      law(after, itemsAfter, after1, ends = true)
    )
  }

  val must: Set[Seq[Int]] = (old._1 ++ changed._1).toSet
  val may: Set[Seq[Int]] = must ++ old._2 ++ changed._2
}
