package org.apache.spark.sql.streamjoin

import java.time.LocalDate

import scala.annotation.unused
import scala.collection.mutable
import scala.util.Random

import streamjoin.core._

final case class RandomBatch(rows: Seq[TraceRow], restart: Boolean)

/**
 * A random query with random rows for its two streams: keys, ties, nulls, duplicates, disorder,
 * late rows, inputs that drift apart and at times stand still, restarts.
 */
abstract class RandomStory(val seed: Long) {
  protected val random = new Random(seed)

  protected def pick[T](from: T*): T = from(random.nextInt(from.size))
  protected def sometimes: Boolean = random.nextInt(3) == 0
  protected def rarely: Boolean = random.nextInt(25) == 0

  /** The time 0 of its rows, in seconds since 1970. */
  def origin: Long

  /** In seconds, less than the disorder, so that some rows are late. */
  val delay: Long = random.between(0L, 6L)

  def trace: Trace

  private val ids = 1 + random.nextInt(4)
  private val now = mutable.Map[Side, Long](Side.Left -> 0L, Side.Right -> random.between(-5L, 6L))

  lazy val batches: Seq[RandomBatch] = Seq.tabulate(7) { number =>
    val sides = if (sometimes) Seq(Side.both(random.nextInt(2))) else Side.both
    val rows = sides.flatMap { side =>
      now(side) += random.between(0L, 7L)
      Seq.tabulate(1 + random.nextInt(7))(index => row(side, s"${side.name.head}$number$index"))
    }
    RandomBatch(random.shuffle(rows), restart = random.nextInt(5) == 0)
  }

  private def row(side: Side, label: String): TraceRow = {
    val own = Map(
      "time" -> value(now(side) + spread(side)),
      "id" -> value(random.nextInt(ids).toLong),
      "v" -> value(random.nextInt(5).toLong)
    )
    TraceRow(side, label, own ++ more(now(side)))
  }

  protected def value(of: => Long): Option[Long] = Option.unless(rarely)(of)

  /** How far a row's time is from the time that its side has reached, in seconds. */
  protected def spread(@unused side: Side): Long = random.between(-9L, 4L)

  /**
   * Additional columns of a row.
   *
   * @param now
   *   the time that its side has reached, in seconds
   */
  protected def more(@unused now: Long): Map[String, Option[Long]] = Map.empty
}

/** Rows for a random interval join. */
final class RandomTrace(
    seed: Long,
    joinType: JoinType,
    equality: Boolean,
    day: LocalDate
) extends RandomStory(seed) {
  override def toString: String =
    s"seed $seed, ${joinType.name}${if (equality) "" else ", without an equality"}, $day"

  override val origin: Long = day.toEpochDay * 86400

  override val trace: Trace = {
    val lowest = random.between(-6L, 4L)
    val highest = lowest + random.between(0L, 10L)
    val bounds =
      if (sometimes)
        Seq(s"right.time > left.time + ${lowest - 1}", s"left.time - ${-highest} >= right.time").map(signs)
      else Seq(s"right.time >= left.time + $lowest", s"right.time <= left.time + $highest").map(signs)
    val lines = Seq(s"join: ${joinType.name}", "left: time", "right: time") ++
      Option.when(equality)("on: left.id = right.id") ++
      bounds.map("on: " + _) ++
      Option.when(sometimes)("on: left.v < right.v") ++
      Option.when(sometimes)("on: left.v > 0") ++
      Option.when(sometimes)("on: right.v > 0")
    TraceParser.parse(s"seed $seed", lines.mkString("\n"))
  }

  private def signs(bound: String): String = bound.replace("+ -", "- ").replace("- -", "+ ")
}

/** Rows for a random join in which rows of one or both sides carry the time at which they leave. */
final class RandomCarried(seed: Long, joinType: JoinType, equality: Boolean, day: LocalDate)
    extends RandomStory(seed) {
  override def toString: String = s"seed $seed, ${trace.lines.mkString("; ")}"

  override val origin: Long = day.toEpochDay * 86400

  private val lifetime = pick("keep", "fail 300", "cut 12")

  override val trace: Trace = {
    def least = pick(">=", ">")
    def most = pick("<=", "<")
    def some(upTo: Long) = pick("", s" + ${random.nextLong(upTo)}", s" - ${random.nextLong(upTo)}")
    val (a, b) = pick("left" -> "right", "right" -> "left")
    // Written from either side of the comparison.
    def until(of: String, by: String) = pick(
      s"$by.time${some(3)} $most $of.until${some(4)}",
      s"$of.until${some(4)} $least $by.time${some(3)}"
    )
    val bounds = random.nextInt(4) match {
      case 0 => Seq(until(a, b), until(b, a))
      // Next to a constant bound, the tighter one decides.
      case 1 => Seq(s"$b.time $least $a.time", s"$b.time $most $a.time + ${random.nextLong(9)}", until(a, b))
      case _ => Seq(s"$b.time${some(4)} $least $a.time", until(a, b))
    }
    val more = Option.when(sometimes)(
      pick(
        s"$b.time $least $a.until - 9",
        s"$a.until ${pick(">=", "<")} $b.until",
        s"$b.until $least $a.time",
        "left.v < right.v",
        "left.v > 0"
      )
    )
    val lines = Seq(s"join: ${joinType.name}", "left: time", "right: time") ++
      Seq("carries: left.until", "carries: right.until", s"lifetime: $lifetime") ++
      Option.when(equality)("on: left.id = right.id") ++ random.shuffle(bounds ++ more).map("on: " + _)
    TraceParser.parse(s"seed $seed", lines.mkString("\n"))
  }

  /** Some ends are before the row's own time, some are far away. */
  override protected def more(now: Long): Map[String, Option[Long]] = {
    val end = now + pick(-9L, 0L, 2L, 5L, 9L, 20L, 200L)
    Map("until" -> Option.unless(rarely)(end))
  }
}

object RandomTrace {

  /** A watermark past all rows. */
  val End = 10000L
}
