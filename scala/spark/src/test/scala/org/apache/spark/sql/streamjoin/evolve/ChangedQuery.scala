package org.apache.spark.sql.streamjoin.evolve

import scala.collection.mutable

import org.apache.spark.sql.functions.expr
import org.apache.spark.sql.streamjoin.JoinTest.Streams
import org.apache.spark.sql.{DataFrame, Row}

import streamjoin.core.{JoinType, Side}

/**
 * An interval join of orders `o` and deliveries `d` that can be changed, in minutes:
 * `d.t BETWEEN o.t + from AND o.t + to`.
 *
 * @param pair
 *   a condition over both sides that is not a bound
 * @param left
 *   a condition on the order alone
 */
final private[evolve] case class ChangedQuery(
    how: String = "inner",
    from: Int = 0,
    to: Int = 60,
    pair: ChangedQuery.Pair = ChangedQuery.Any,
    left: Option[Int] = None
) {
  def condition: String =
    s"o.id = d.id AND d.t >= o.t + INTERVAL $from MINUTES AND d.t <= o.t + INTERVAL $to MINUTES" +
      s" AND ${pair.sql}${left.fold("")(by => s" AND o.v % $by <> 0")}"

  def joined(streams: Streams): DataFrame =
    streams.marked("o").join(streams.marked("d"), expr(condition), how)

  def frame(streams: Streams): DataFrame =
    joined(streams).selectExpr(
      (if (joinType.filtered.isDefined) Seq("o.v AS a") else Seq("o.v AS a", "d.v AS b")): _*
    )

  def joinType: JoinType = JoinType.named(how).get
}

private[evolve] object ChangedQuery {

  /** @param sql keeps the column `v` of both sides, whatever the type of the join selects */
  final case class Pair(sql: String, holds: (Int, Int) => Boolean)

  val Any: Pair = Pair("o.v + d.v >= 0", _ + _ >= 0)
  val Less: Pair = Pair("o.v < d.v", _ < _)
  val Even: Pair = Pair("(o.v + d.v) % 2 = 0", (o, d) => (o + d) % 2 == 0)
}

/** A row of a stream; its time is in minutes. */
final private[evolve] case class Fed(side: Side, id: String, time: Int, v: Int) {
  def row: (String, Row) = {
    val name = if (side == Side.Left) "o" else "d"
    name -> org.apache.spark.sql.streamjoin.JoinTest.row(id, f"${time / 60}%02d:${time % 60}%02d", v)
  }
}

/**
 * The law, row by row: a pair belongs to the query that runs when its later row arrives, and a row
 * has matched if it was emitted with a match, under whichever condition applied then. No row of its
 * stories is late.
 *
 * @param noData
 *   whether a batch without rows runs as soon as a row can leave
 */
final private[evolve] class ChangedQueryOracle(noData: Boolean = true) {
  final private class Kept(val row: Fed, var matched: Boolean = false)

  private val kept = Side.both.map(side => side -> mutable.ArrayBuffer.empty[Kept]).toMap
  private val watermark = mutable.Map.empty[Side, Int]
  private val evictedBelow = mutable.Map.empty[Side, Int].withDefaultValue(Int.MinValue)
  private var last: Option[ChangedQuery] = None

  /** The output of a batch with these rows and of the batches without rows after it, sorted. */
  def feed(query: ChangedQuery, rows: Seq[Fed]): Seq[String] = {
    last.filter(_ != query).foreach(changed(_, query))
    last = Some(query)
    val out = mutable.ArrayBuffer.empty[String]
    Side.both.foreach(side => out ++= takeIn(query, rows.filter(_.side == side)))
    out ++= evict(query)
    rows.foreach(row => watermark(row.side) = watermark.get(row.side).fold(row.time)(math.max(_, row.time)))
    if (noData && Side.both.exists(side => kept(side).exists(_.row.time < limit(query, side))))
      out ++= evict(query)
    out.sorted.toSeq
  }

  private def changed(was: ChangedQuery, is: ChangedQuery): Unit = {
    val (before, now) = (was.joinType, is.joinType)
    if (now.filtered.isDefined && before.filtered.isEmpty) kept(Side.Left).filterInPlace(!_.matched)
    // An operator knows which rows have matched only if it pads them.
    Side.both
      .filter(side =>
        now.pads(side) && !before.pads(side) && !(before.filtered.isDefined && side == Side.Left)
      )
      .foreach(kept(_).foreach(_.matched = true))
  }

  private def takeIn(query: ChangedQuery, rows: Seq[Fed]): Seq[String] = {
    val (unmatchable, others) =
      rows.partition(!passes(query, _))
    val fresh = others.map(new Kept(_))
    val out = for {
      own <- fresh
      other <- kept(own.row.side.other).toSeq
      if !isGone(own) && !isGone(other) && isPair(query, own.row, other.row)
      row <- matched(query, own, other)
    } yield row
    if (rows.nonEmpty) kept(rows.head.side) ++= fresh.filterNot(isGone)
    Side.both.foreach(kept(_).filterInPlace(!isGone(_)))
    out ++ unmatchable.filter(row => query.joinType.pads(row.side)).map(alone(query, _))
  }

  private val gone = mutable.Set.empty[Fed]
  private def isGone(row: Kept): Boolean = gone(row.row)

  private def isPair(query: ChangedQuery, one: Fed, other: Fed): Boolean = {
    val (o, d) = if (one.side == Side.Left) (one, other) else (other, one)
    passes(
      query,
      o
    ) && o.id == d.id && d.time >= o.time + query.from && d.time <= o.time + query.to && query.pair.holds(
      o.v,
      d.v
    )
  }

  private def passes(query: ChangedQuery, row: Fed): Boolean =
    row.side == Side.Right || query.left.forall(row.v % _ != 0)

  private def matched(query: ChangedQuery, one: Kept, other: Kept): Option[String] = {
    Seq(one, other).foreach(_.matched = true)
    val (o, d) = if (one.row.side == Side.Left) (one.row, other.row) else (other.row, one.row)
    if (query.joinType.filtered.isDefined) gone += o
    if (query.joinType.emitsPairs) Some(s"${o.v} ${d.v}")
    else Option.when(query.joinType.emitsFirstMatch)(s"${o.v}")
  }

  private def alone(query: ChangedQuery, row: Fed): String =
    if (query.joinType.filtered.isDefined) s"${row.v}"
    else if (row.side == Side.Left) s"${row.v} -"
    else s"- ${row.v}"

  private def limit(query: ChangedQuery, side: Side): Int = {
    val now = watermark.get(side.other).fold(Int.MinValue) { other =>
      if (side == Side.Left) other - query.to else other + query.from
    }
    math.max(now, evictedBelow(side))
  }

  private def evict(query: ChangedQuery): Seq[String] = Side.both.flatMap { side =>
    evictedBelow(side) = limit(query, side)
    val (leaving, staying) = kept(side).partition { kept =>
      kept.row.time < evictedBelow(side) || !passes(query, kept.row)
    }
    kept(side).clear()
    kept(side) ++= staying
    leaving.filter(row => query.joinType.pads(side) && !row.matched).map(row => alone(query, row.row))
  }
}
