package org.apache.spark.sql.streamjoin

import java.time.LocalDate

import scala.util.Random

import streamjoin.core._

final case class RandomBatch(rows: Seq[TraceRow], restart: Boolean)

/**
 * Random rows for a random join: keys, ties, nulls, duplicates, disorder, late rows, inputs that
 * run apart and at times stand still, restarts.
 */
final class RandomTrace(
    val seed: Long,
    joinType: JoinType,
    equality: Boolean,
    day: LocalDate
) extends RandomStory {
  override def toString: String =
    s"seed $seed, ${joinType.name}${if (equality) "" else ", without an equality"}, $day"

  val origin: Long = day.toEpochDay * 86400

  private val random = new Random(seed)

  /** Less than the disorder, so that some rows are late. */
  val delay: Long = random.between(0L, 6L)

  private def sometimes: Boolean = random.nextInt(3) == 0
  private def rarely: Boolean = random.nextInt(25) == 0

  val trace: Trace = {
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

  private val ids = 1 + random.nextInt(4)
  private val now =
    scala.collection.mutable.Map[Side, Long](Side.Left -> 0L, Side.Right -> random.between(-5L, 6L))

  val batches: Seq[RandomBatch] = Seq.tabulate(7) { number =>
    val sides = if (sometimes) Seq(Side.both(random.nextInt(2))) else Side.both
    val rows = sides.flatMap { side =>
      now(side) += random.between(0L, 7L)
      Seq.tabulate(1 + random.nextInt(6))(index => row(side, s"${side.name.head}$number$index"))
    }
    RandomBatch(random.shuffle(rows), restart = random.nextInt(6) == 0)
  }

  private def row(side: Side, label: String): TraceRow = {
    val time = Option.unless(rarely)(now(side) + random.between(-9L, 4L))
    val id = Option.unless(rarely)(random.nextInt(ids).toLong)
    val v = Option.unless(rarely)(random.nextInt(5).toLong)
    TraceRow(side, label, Map("time" -> time, "id" -> id, "v" -> v))
  }
}

object RandomTrace {

  /** A watermark past everything. */
  val End = 10000L
}
