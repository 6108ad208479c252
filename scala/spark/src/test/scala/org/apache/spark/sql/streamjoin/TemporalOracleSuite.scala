package org.apache.spark.sql.streamjoin

import scala.collection.mutable
import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

import streamjoin.core._

/** Random temporal and as-of joins against the core, batch for batch. */
class TemporalOracleSuite extends AnyFunSuite with OracleTest {
  private val cases = (1 to SparkTest.seeds(default = 16)).map(seed => new RandomMatch(seed.toLong))

  testAll[RandomMatch](cases, _.toString)(random => compare(random, new TemporalCore(random.trace)))
}

final private class TemporalCore(trace: Trace) extends OracleCore {
  private val rule = trace.closest.get.rule
  private val core = CoreTrace.temporal(trace)

  /** Rows of the right input before this time are known by their keys alone. */
  private var needed = Watermark.Undefined

  private def settled(watermarks: Map[Int, Long]): Long =
    rule.settled(watermarks.getOrElse(0, Watermark.Undefined), watermarks.getOrElse(1, Watermark.Undefined))

  /** The versions first: those of the batch are valid for its rows. */
  override def onBatch(
      left: Seq[TraceRow],
      right: Seq[TraceRow],
      late: Map[Int, Long],
      eviction: Map[Int, Long]
  ): Seq[Output[TraceRow]] = {
    val came = (right ++ left).flatMap(row => core.onRow(row.side, row))
    val out = came ++ Seq(1, 0).flatMap(key => eviction.get(key).toSeq.flatMap(core.onWatermark(key, _)))
    needed = rule.needed(settled(eviction))
    out.filterNot(_.isInstanceOf[Output.Moved])
  }

  override def buffered(side: Side): Seq[TraceRow] = CoreTrace.kept(core)(side)

  /** One for each key. */
  override def mayStay: Int =
    if (rule.keepsNewest) buffered(Side.Right).map(_.values("id")).distinct.size else 0

  override def evicts(eviction: Map[Int, Long]): Boolean = {
    val next = settled(eviction)
    def times(side: Side) = buffered(side).flatMap(_.values("time"))
    times(Side.Left).exists(_ < next) ||
    times(Side.Right).exists(time => time >= needed && time < rule.needed(next))
  }
}

/**
 * Random rows for a random join: keys, ties, nulls, deletes, disorder, late rows, inputs that run
 * apart and at times stand still, restarts.
 */
final private class RandomMatch(override val seed: Long) extends RandomStory {
  private val random = new Random(seed)

  private def pick[T](from: T*): T = from(random.nextInt(from.size))
  private def sometimes: Boolean = random.nextInt(3) == 0
  private def rarely: Boolean = random.nextInt(25) == 0

  override val origin: Long = pick(0L, 1717200000L)
  override val delay: Long = random.between(0L, 6L)

  private val isTemporal = random.nextBoolean()
  private val isKeyed = isTemporal || random.nextInt(4) > 0
  private val joinType = pick("inner", "left_outer")

  private val directives: Seq[String] = {
    val within = s"within ${random.between(0L, 8L)}"
    if (isTemporal)
      Seq("match: left.time >= right.time", "delete: gone") ++
        Option.when(sometimes)(s"history: ${random.between(1L, 9L)}") ++
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

  private val ids = 1 + random.nextInt(4)
  private val now = mutable.Map[Side, Long](Side.Left -> 0L, Side.Right -> random.between(-5L, 6L))

  override val batches: Seq[RandomBatch] = Seq.tabulate(8) { number =>
    val sides = if (sometimes) Seq(Side.both(random.nextInt(2))) else Side.both
    val rows = sides.flatMap { side =>
      now(side) += random.between(0L, 7L)
      Seq.tabulate(1 + random.nextInt(8))(index => row(side, s"${side.name.head}$number$index"))
    }
    RandomBatch(random.shuffle(rows), restart = random.nextInt(5) == 0)
  }

  private def row(side: Side, label: String): TraceRow = {
    val time = Option.unless(rarely)(now(side) + random.between(-9L, 4L))
    val id = Option.unless(rarely)(random.nextInt(ids).toLong)
    val v = Option.unless(rarely)(random.nextInt(5).toLong)
    val gone = Some(if (isTemporal && sometimes) 1L else 0L)
    TraceRow(side, label, Map("time" -> time, "id" -> id, "v" -> v, "gone" -> gone))
  }
}
