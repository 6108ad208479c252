package org.apache.spark.sql.streamjoin.joins.temporal

import java.nio.file.{Files, Path}
import java.time.LocalDateTime

import scala.jdk.CollectionConverters._
import scala.util.Random

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.streamjoin.JoinTest._
import org.apache.spark.sql.streamjoin.{JoinTest, SparkTest}
import org.apache.spark.sql.{DataFrame, Row}
import org.apache.spark.util.ManualClock

import streamjoin.core._

/**
 * Random temporal joins of inputs that are silent at times, compared with the core batch by batch:
 * with the watermarks from the checkpoint, with restarts, and with batches that run again.
 */
class TemporalIdleSuite extends AnyFunSuite with TemporalTest {

  private case class Timed(side: Side, id: String, minute: Long, v: Int)

  private val Start = LocalDateTime.parse("2024-06-01T10:00")

  private def joined(history: Long): Streams => DataFrame = {
    val kept = Option.when(history > 0)(s"$history minutes")
    values(temporal(history = kept, facts = mayBeIdle(_, "o"), changes = mayBeIdle(_, "d")))
  }

  private def core(history: Long) = new TemporalJoin[Timed](
    true,
    AsOf(history = history),
    Side.both.map(side => side -> Input[Timed]((row, _) => Some(row.minute))).toMap,
    Versions((_, row) => Some(row.id), _.v < 0, order)
  )

  private val order: Ordering[Timed] = Ordering.by(row => (row.v >= 0, row.v))

  /** What the checkpoint holds for a batch, one entry per input. */
  private def entry(job: Job, batch: Long): Seq[JsonNode] = new ObjectMapper()
    .readTree(Files.readString(Path.of(job.checkpoint, "keyed-watermarks", batch.toString)))
    .get("keys")
    .elements()
    .asScala
    .toSeq

  /** The watermarks that a batch evicts by, from the checkpoint, in minutes of the story. */
  private def watermarks(job: Job, batch: Long): Map[Int, Long] = {
    val start = at(Start.toString).getTime
    (for {
      (key, side) <- entry(job, batch).zipWithIndex
      known = Seq("watermarkMs", "carriedMs").flatMap(name => Option(key.get(name)).map(_.asLong))
      if known.nonEmpty
    } yield side -> (known.max - start) / 60000).toMap
  }

  private def shown(output: Output[Timed]): Option[String] = output match {
    case Output.Joined(left, right) => Some(s"${left.v} ${right.v}")
    case Output.Alone(_, left) => Some(s"${left.v} -")
    case _ => None
  }

  /**
   * @return number of late rows, and of batches in which one input carried the other's watermark on
   */
  private def story(seed: Int): (Int, Int) = {
    val random = new Random(seed)
    val history = if (random.nextBoolean()) 0L else 1L + random.nextInt(40)
    val clock = new ManualClock(1000000000000L)
    running(clocked(clock)(joined(history))) { job =>
      val processor = core(history)
      var now = Map[Side, Long](Side.Left -> 0L, Side.Right -> 0L)
      var (late, silent) = (0, 0)
      def follow(batches: Seq[Batch], rows: Seq[Timed]): Unit = batches.zipWithIndex.foreach {
        case (batch, number) =>
          val came = if (number == 0) rows else Nil
          val (left, right) = came.partition(_.side == Side.Left)
          val outputs = (right.sortBy(row => (row.minute, row.v >= 0, row.v)) ++ left)
            .flatMap(row => processor.onRow(row.side, row)) ++ processor.onWatermarks(
            watermarks(job, batch.id)
          )
          silent += (if (entry(job, batch.id).exists(_.has("carriedMs"))) 1 else 0)
          late += outputs.count(_.isInstanceOf[Output.Late[_]])
          assert(
            batch.rows.sorted == outputs.flatMap(shown).sorted,
            s"seed $seed, batch ${batch.id}, rows $came"
          )
      }
      def feed(rows: Seq[Timed]): Unit = {
        val cells: Seq[(String, Row)] = rows.map { row =>
          (if (row.side == Side.Left) "o" else "d") -> JoinTest.row(
            row.id,
            Start.plusMinutes(row.minute).toString,
            row.v
          )
        }
        follow(job.batches(cells: _*), rows)
      }
      (0 until 14).foreach { step =>
        val sides = Side.both.filter(_ => random.nextInt(3) > 0)
        now = now.map { case (side, minute) =>
          side -> (minute + (if (sides.contains(side)) random.nextInt(20) else 0))
        }
        feed(for (side <- sides; number <- 0 to random.nextInt(4)) yield {
          val back =
            if (side == Side.Right && random.nextInt(3) == 0) random.nextInt(200) else random.nextInt(15)
          val v = 100 * step + 10 * side.index + number
          val isDelete = side == Side.Right && random.nextInt(4) == 0
          Timed(side, random.nextInt(3).toString, now(side) - back, if (isDelete) -v - 1 else v)
        })
        clock.advance(random.nextInt(40) * 1000L)
        follow(job.batches(), Nil)
        random.nextInt(6) match {
          case 0 => job.restart()
          case 1 if job.seen.nonEmpty =>
            val last = job.seen.last
            job.redoLast()
            assert(job.seen.last == last, s"seed $seed")
          case _ =>
        }
      }
      (late, silent)
    }
  }

  test("rows agree with the core, whichever input is silent") {
    val (late, silent) = (0 until SparkTest.seeds(1)).map(story).unzip
    assert(late.sum > 0)
    assert(silent.sum > 0)
  }
}
