package org.apache.spark.sql.streamjoin.joins.temporal

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.streamjoin.{ChangedCore, OracleTest, RandomStory, SparkTest}

import streamjoin.core._

/** Random temporal and as-of joins, compared with the core batch by batch. */
class TemporalOracleSuite extends AnyFunSuite with OracleTest {
  private val cases = (1 to SparkTest.seeds(default = 4)).map(seed => new RandomMatch(seed.toLong))

  testAll[RandomMatch](cases, _.toString)(random => compare(random, new TemporalCore(random.trace)))
}

final private[streamjoin] class TemporalCore(first: Trace) extends ChangedCore {
  private var trace = first
  private var core = CoreTrace.temporal(first)

  private def rule = trace.closest.get.rule

  override def change(to: Trace): Unit = {
    trace = to
    core = CoreTrace.temporal(to, core.snapshot)
  }

  private val inOrder: Ordering[TraceRow] = Ordering.by { row =>
    (row.values("time"), !trace.closest.get.isDelete(row), row.label)
  }

  /**
   * Versions come first: those of a batch are valid for its rows. Of several late versions of one
   * key in a batch the newest counts, and none makes another one late.
   */
  override def onBatch(
      left: Seq[TraceRow],
      right: Seq[TraceRow],
      late: Map[Int, Long],
      eviction: Map[Int, Long]
  ): Seq[Output[TraceRow]] = {
    val came = (right.sorted(inOrder) ++ left).flatMap(row => core.onRow(row.side, row))
    (came ++ core.onWatermarks(eviction)).filterNot(_.isInstanceOf[Output.Moved])
  }

  override def buffered(side: Side): Seq[TraceRow] = CoreTrace.kept(core)(side)

  /** One row per key. */
  override def mayStay: Int =
    if (rule.keepsNewest) buffered(Side.Right).map(_.values("id")).distinct.size else 0

  override def evicts(eviction: Map[Int, Long]): Boolean = {
    val now = core.snapshot
    val later = CoreTrace.temporal(trace, now)
    later.onWatermarks(eviction)
    val next = later.snapshot
    def times(side: Side) = buffered(side).flatMap(_.values("time"))
    // Rows of the right input below what is needed are known by their key alone.
    times(Side.Left).exists(_ < next.settled) ||
    times(Side.Right).exists(time => time >= now.needed && time < next.needed)
  }
}

/** Rows for a random temporal or as-of join, with deletes. */
final private[streamjoin] class RandomMatch(seed: Long) extends RandomStory(seed) {
  override val origin: Long = pick(0L, 1717200000L)

  private val isTemporal = random.nextBoolean()
  private val isKeyed = isTemporal || random.nextInt(4) > 0
  private val joinType = pick("inner", "left_outer")

  private val directives: Seq[String] = {
    val within = s"within ${random.between(0L, 8L)}"
    if (isTemporal)
      Seq("match: left.time >= right.time", "delete: gone") ++
        Option.when(sometimes)(s"history: ${random.between(1L, 9L)}") ++
        Option.when(random.nextBoolean())(s"remembers: ${random.between(0L, 12L)}") ++
        Option.when(sometimes)("on: left.v < right.v")
    else
      Seq("match: " + (random.nextInt(4) match {
        case 0 => s"left.time ${pick(">=", ">")} right.time"
        case 1 => s"left.time ${pick(">=", ">")} right.time $within"
        case 2 => s"left.time ${pick("<=", "<")} right.time $within"
        case _ => s"nearest $within${pick("", " not exact")}"
      }))
  }

  override val trace: Trace = {
    val lines = Seq(s"join: $joinType", "left: time", "right: time") ++ directives ++
      Option.when(isKeyed)("on: left.id = right.id")
    TraceParser.parse(s"seed $seed", lines.mkString("\n"))
  }

  override def toString: String =
    s"seed $seed, $joinType, ${if (isKeyed) "" else "no equality, "}${directives.mkString(", ")}"

  /** A table that is loaded in pieces, from long ago; a version that is far ahead of the others. */
  private val inPieces = random.nextBoolean()
  private val farAhead = random.nextInt(3) == 0

  override protected def spread(side: Side): Long =
    if (side == Side.Right && inPieces && random.nextBoolean()) -random.nextInt(200).toLong
    else if (side == Side.Right && farAhead && rarely) random.between(50L, 500L)
    else super.spread(side)

  override protected def more(now: Long): Map[String, Option[Long]] =
    Map("gone" -> Some(if (isTemporal && sometimes) 1L else 0L))
}
