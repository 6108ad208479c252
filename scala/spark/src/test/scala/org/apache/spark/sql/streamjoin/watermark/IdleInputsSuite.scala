package org.apache.spark.sql.streamjoin.watermark

import java.nio.file.{Files, Path}
import java.time.LocalDateTime

import scala.collection.mutable
import scala.jdk.CollectionConverters._
import scala.util.Random

import com.fasterxml.jackson.databind.ObjectMapper
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.functions.{col, count, expr, lit, window}
import org.apache.spark.sql.streamjoin.{Frames, JoinTest, SparkTest}
import org.apache.spark.sql.{DataFrame, Row}
import org.apache.spark.util.ManualClock

import streamjoin.core.{JoinWindow, JoinWindows, Side}

/** An input that is silent for a while no longer holds others back. */
class IdleInputsSuite extends AnyFunSuite with JoinTest {
  import JoinTest._

  private val Noon = 1000000000000L

  /** Only deliveries may be idle. */
  private def outer(how: String = "left_outer", condition: String = Hourly)(streams: Streams): DataFrame =
    streams.marked("o").join(mayBeIdle(streams, "d"), expr(condition), how).selectExpr("o.v", "d.v")

  private def running[T](query: Streams => DataFrame)(body: (Job, ManualClock) => T): T = {
    val clock = new ManualClock(Noon)
    running(clocked(clock)(query))(body(_, clock))
  }

  /** Advances the clock; returns the output. */
  private def wait(job: Job, clock: ManualClock, seconds: Long): Seq[String] = {
    clock.advance(seconds * 1000)
    job.settle()
  }

  private def keys(job: Job, batch: Long) = new ObjectMapper()
    .readTree(Files.readString(Path.of(job.checkpoint, "keyed-watermarks", batch.toString)))
    .get("keys")
    .elements()
    .asScala
    .toSeq

  test("rows of the other input are evicted without new data, and the progress shows the idle input") {
    running(outer() _) { (job, clock) =>
      job.feed(o("a", "10:00", 1), d("x", "10:00", 9))
      // W(d) = 10:00 keeps orders from 9:00 on.
      job.feed(o("b", "11:30", 2))
      assert(wait(job, clock, 29).isEmpty)
      assert(job.metric("idleSinceMs.right.t") == -1)
      val batches = job.seen.size
      // Idle deliveries follow orders: W(d) = 11:30 evicts orders before 10:30.
      assert(wait(job, clock, 1) == Seq("1 -"))
      // One batch that records the idle input, and one that evicts by it.
      assert(job.seen.size == batches + 2)
      assert(job.watermark("right") == "11:30")
      assert(job.metric("idleSinceMs.right.t") == Noon)
      assert(job.metric("idleSinceMs.left.t") == -1)
      assert(job.metric("lagMs.right.t") == -1)
      // It follows the other input, without further batches of its own.
      assert(wait(job, clock, 3600).isEmpty)
      assert(job.seen.size == batches + 2)
      // W(d) = W(o) = 13:00 evicts orders before 12:00.
      assert(job.feed(o("c", "13:00", 3)) == Seq("2 -"))
      assert(job.watermark("right") == "13:00")
    }
  }

  test("rows of a resumed input are late only below its own last watermark") {
    running(
      outer("full_outer", "o.id = d.id AND d.t BETWEEN o.t - INTERVAL 1 HOUR AND o.t + INTERVAL 1 HOUR") _
    ) { (job, clock) =>
      job.feed(o("a", "10:00", 1), d("x", "10:00", 9))
      // W(o) = 12:00 evicts deliveries before 11:00.
      assert(job.feed(o("b", "12:00", 2)) == Seq("- 9"))
      // W(d) follows W(o) to 12:00 and evicts orders before 11:00.
      assert(wait(job, clock, 30) == Seq("1 -"))
      // Below its last watermark (10:00) a row is late; above it, it can match rows that are still
      // buffered.
      assert(
        job.feed(d("a", "09:59", 3), d("a", "10:05", 4), d("b", "11:00", 5), d("n", "10:10", 6)) ==
          Seq("- 4", "- 6", "2 5")
      )
      assert(job.dropped == 1)
      job.feed(o("c", "12:30", 7))
      assert(job.metric("idleSinceMs.right.t") == -1)
      // For eviction the watermark does not go back; for late rows it is that of the deliveries
      // themselves.
      assert(job.watermark("right") == "12:00")
      // That is 11:00: the delivery of 10:59 is late, that of 11:30 is not.
      assert(job.feed(d("c", "11:30", 8), d("c", "10:59", 10)) == Seq("7 8"))
      // W(d) = 14:00 evicts orders before 13:00; both had matches.
      assert(job.feed(d("x", "14:00", 11)).isEmpty)
      assert(job.watermark("right") == "14:00")
    }
  }

  test("an input without a row so far can be idle, and so can both inputs") {
    running { streams =>
      mayBeIdle(streams, "o")
        .join(mayBeIdle(streams, "d"), expr(Hourly), "left_outer")
        .selectExpr("o.v", "d.v")
    } { (job, clock) =>
      job.feed(o("a", "10:00", 1))
      // Without W(d), both orders wait.
      assert(job.feed(o("b", "12:00", 2)).isEmpty)
      // If all inputs are idle, the highest watermark counts.
      assert(wait(job, clock, 40) == Seq("1 -"))
      assert(job.watermark("left") == "12:00")
      assert(job.watermark("right") == "12:00")
      assert(job.feed(d("b", "10:30", 3), d("b", "12:10", 4)) == Seq("2 4"))
    }
  }

  /** Each input has another time besides `t`, or none. */
  private def withOthers(
      left: DataFrame,
      right: DataFrame,
      others: (String, String)
  ): DataFrame = left
    .selectExpr("*", s"${others._1} AS other")
    .as("o")
    .join(right.selectExpr("*", s"${others._2} AS other").as("d"), expr(Hourly), "left_outer")
    .selectExpr("o.v AS a", "d.v AS b", "o.other AS c", "d.other AS e")

  private def withoutOthers(job: Job): Unit =
    job.sink = _.select("a", "b").collect().map(text(_: Row)).toSeq

  test("another time in an idle input, or in the one that it follows, does not move its watermark") {
    val day = "date_trunc('DAY', t)"
    for (others <- Seq("v" -> day, day -> "v"))
      running(streams => withOthers(streams.marked("o"), mayBeIdle(streams, "d"), others)) { (job, clock) =>
        withoutOthers(job)
        job.feed(o("a", "10:00", 1), d("x", "10:00", 9))
        assert(job.feed(o("b", "12:00", 2)).isEmpty)
        // Idle deliveries follow orders: W(d) = 12:00 evicts orders before 11:00.
        assert(wait(job, clock, 30) == Seq("1 -"))
        assert(job.watermark("right") == "12:00")
        // Once they are sent again, an order waits an hour for its delivery.
        assert(job.feed(o("c", "12:10", 3), d("y", "12:05", 9)).isEmpty)
        assert(job.feed(d("c", "12:20", 4)) == Seq("3 4"))
      }
  }

  test("two idle inputs with another time stay where they are") {
    val earlier = "t - INTERVAL 1 HOUR"
    running { streams =>
      withOthers(mayBeIdle(streams, "o"), mayBeIdle(streams, "d"), earlier -> earlier)
    } { (job, clock) =>
      withoutOthers(job)
      job.feed(o("a", "10:00", 1), d("x", "10:00", 9))
      job.feed(o("b", "12:00", 2))
      // W(d) follows W(o) to 12:00 and evicts orders before 11:00.
      assert(wait(job, clock, 40) == Seq("1 -"))
      val batches = job.seen.size
      assert(wait(job, clock, 60).isEmpty)
      assert(job.seen.size == batches)
      assert(Seq("left", "right").map(job.watermark(_)) == Seq("12:00", "12:00"))
      assert(job.feed(d("b", "12:30", 3)) == Seq("2 3"))
    }
  }

  test("an input with rows now and then is not idle, even if the query is slow") {
    running(outer() _) { (job, clock) =>
      // W(d) = 10:00 keeps orders from 9:00 on.
      job.feed(o("a", "10:00", 1), o("b", "12:00", 2), d("x", "10:00", 9))
      (1 to 4).foreach { _ =>
        clock.advance(20000)
        assert(job.feed(d("x", "10:00", 9)).isEmpty)
      }
      // After a long pause, the rows of the next batch are seen before the decision.
      clock.advance(100000)
      assert(job.feed(d("x", "10:00", 9)).isEmpty)
      assert(wait(job, clock, 29).isEmpty)
      // Idle deliveries follow orders: W(d) = 12:00 evicts orders before 11:00.
      assert(wait(job, clock, 1) == Seq("1 -"))
    }
  }

  test("an idle input that holds nothing back causes no batch") {
    running(outer() _) { (job, clock) =>
      // W(d) = 12:00 evicts orders before 11:00 at once.
      job.feed(o("a", "10:00", 1), d("x", "12:00", 9))
      val batches = job.seen.size
      assert(wait(job, clock, 60).isEmpty)
      assert(job.seen.size == batches)
    }
  }

  test("an idle branch of a union does not hold its join back, nor does a slow input above it") {
    running { streams =>
      val d = mayBeIdle(streams, "d").union(streams.raw("e").withWatermark("t", "0 seconds")).as("d")
      val r = streams.marked("r")
      streams
        .marked("o")
        .join(d, expr(Hourly), "left_outer")
        .join(r, expr("o.id = r.id AND r.t BETWEEN o.t AND o.t + INTERVAL 1 HOUR"), "left_outer")
        .selectExpr("o.v", "d.v", "r.v")
    } { (job, clock) =>
      job.feed(o("a", "10:00", 1), d("x", "10:00"), "e" -> row("x", "12:00"), "r" -> row("x", "09:00"))
      clock.advance(20000)
      job.feed(o("b", "12:00", 2), "e" -> row("x", "12:00"), "r" -> row("x", "09:30"))
      // Without d, W(e) = 12:00 evicts orders before 11:00 from the first join. The second waits.
      assert(wait(job, clock, 10).isEmpty)
      // The slow input of the second join does not hold the first join back.
      assert(job.joins.map(_.ordinal).toSet == Set(0, 1))
      val first = job.progress.stateOperators.filter(_.customMetrics.get("join") == 1L).head
      assert(first.customMetrics.get("watermarkMs.right.t") == at("12:00").getTime)
      assert(first.customMetrics.get("idleSinceMs.right.t") == Noon)
      // W(r) = 11:30 evicts orders before 10:30 from the second join.
      assert(job.feed("r" -> row("x", "11:30")) == Seq("1 - -"))
    }
  }

  test("a row of a resumed input is not late in the joins above either") {
    val condition = "o.id = d.id AND d.t BETWEEN o.t - INTERVAL 1 HOUR AND o.t + INTERVAL 1 HOUR"
    running { streams =>
      streams
        .marked("o")
        .join(mayBeIdle(streams, "d"), expr(condition))
        .join(
          streams.marked("r"),
          expr("d.id = r.id AND r.t BETWEEN d.t AND d.t + INTERVAL 3 HOURS"),
          "left_outer"
        )
        .selectExpr("o.v", "d.v", "r.v")
    } { (job, clock) =>
      job.feed(o("a", "11:30", 1), d("x", "10:00", 9), "r" -> row("a", "12:00", 5))
      job.feed(o("b", "12:00", 2), "r" -> row("x", "12:00", 9))
      // Idle deliveries follow orders: W(d) = 12:00.
      clock.advance(30000)
      job.settle()
      job.feed(o("b", "12:10", 2), "r" -> row("x", "12:10", 9))
      // For eviction the second join was told that d.t is at 11:10 or later; for late rows it gets
      // d's own watermark.
      assert(job.feed(d("a", "10:40", 3)) == Seq("1 3 5"))
      assert(job.dropped == 0)
    }
  }

  test("a window join continues while an input is idle, and its rowtimes never go back") {
    val windows = JoinWindows(Map(Side.Right -> JoinWindow(10L * 60 * 1000000, true)))
    running { streams =>
      val joined = streams.marked("o").join(mayBeIdle(streams, "d"), expr("o.id = d.id"), "full_outer")
      Frames.windows(joined, windows).selectExpr("rowtime", "o.v", "d.v")
    } { (job, clock) =>
      job.feed(o("a", "10:00", 1), d("x", "10:00", 9))
      job.feed(o("b", "10:30", 2))
      assert(wait(job, clock, 30).contains("10:00 1 -"))
      assert(job.feed(o("c", "11:00", 3)) == Seq("10:30 2 -"))
      // Not late for the join, but its place in the order has passed.
      assert(job.feed(d("b", "10:35", 4), d("c", "11:05", 5)) == Seq("11:00 3 5"))
      job.feed(o("z", "12:00", 6), d("z", "12:00", 7))
      val rowtimes = job.seen.flatMap(_.rows).map(_.takeWhile(_ != ' '))
      assert(rowtimes == rowtimes.sorted)
      assert(!job.seen.flatMap(_.rows).exists(_.endsWith(" 4")))
    }
  }

  test("idle_after has no effect on joins left to Spark, and is rejected without a join") {
    withConf("spark.streamjoin.enabled" -> "false") {
      running(outer() _) { (job, _) =>
        assert(job.feed(o("a", "10:00", 1), d("a", "10:30", 2)) == Seq("1 2"))
      }
    }
    val rejected = rejection(mayBeIdle(newStreams(), "d"))
    assert(rejected.getCondition == "STREAMJOIN_INPUT.NO_JOIN")
    assert(rejected.getMessage.contains("sj.idle_after"))
    val bounds = Frames.withBounds(
      newStreams().raw("d").selectExpr("*", "v = 1 AS b"),
      "t",
      "b",
      Some("1 second"),
      Some("id")
    )
    assert(rejection(bounds).getMessage.contains("per= of sj.with_bounds"))
  }

  // Random stories: silence, resumed inputs, restarts, replayed batches.

  private def randomStory(seed: Int): Unit = {
    val random = new Random(seed)
    running { streams =>
      mayBeIdle(streams, "o")
        .join(mayBeIdle(streams, "d"), expr(Hourly), "full_outer")
        .selectExpr("o.v", "d.v")
    } { (job, clock) =>
      var fed = Seq.empty[Int]
      val now = mutable.Map.from(Seq("o", "d").map(_ -> LocalDateTime.parse("2024-06-01T10:00")))
      (0 until 25).foreach { _ =>
        val names = Seq("o", "d").filter(_ => random.nextInt(3) > 0)
        val rows = for (name <- names; _ <- 0 to random.nextInt(3)) yield {
          now(name) = now(name).plusMinutes(random.nextInt(30).toLong)
          fed :+= fed.size
          name -> row(random.nextInt(2).toString, now(name).toString, fed.last)
        }
        job.feed(rows: _*)
        clock.advance(random.nextInt(40) * 1000L)
        job.settle()
        random.nextInt(6) match {
          case 0 => job.restart()
          case 1 if job.seen.nonEmpty => job.redoLast()
          case _ =>
        }
      }
      clock.advance(60000)
      // Past the last row that the steps can reach.
      job.feed(o("end", "2024-06-04T00:00", -1), d("end", "2024-06-04T00:00", -2))
      clock.advance(60000)
      job.settle()
      val out = job.seen.groupBy(_.id).values.map(_.last).flatMap(_.rows).map(_.split(" ").toSeq).toSeq
      // No row is late, so each is emitted: in pairs, or once without a match.
      fed.map(_.toString).foreach { v =>
        val with_v = out.filter(_.contains(v))
        val alone = with_v.count(_.contains("-"))
        assert(with_v.nonEmpty, s"seed $seed, row $v: $with_v")
        assert(alone == 0 || alone == 1 && with_v.size == 1, s"seed $seed, row $v: $with_v")
      }
      assert(out.distinct.size == out.size, s"seed $seed: a row was emitted twice")
    }
  }

  testLong("each row is emitted in pairs or once without a match, whichever input is idle") {
    (0 until SparkTest.seeds(1)).foreach(randomStory)
  }

  test("restarts and replayed batches keep the decision which inputs are idle") {
    def story(restarts: Boolean) = running(outer("full_outer") _) { (job, clock) =>
      def step(out: => Seq[String]): Seq[String] = {
        val rows = out
        if (restarts) {
          val last = job.seen.last
          job.redoLast()
          assert(job.seen.last.rows.sorted == last.rows.sorted)
        }
        rows
      }
      val out = Seq(
        step(job.feed(o("a", "10:00", 1), d("x", "10:00", 9))),
        // W(o) = 12:00 evicts the delivery.
        job.feed(o("b", "12:00", 2)),
        // Idle deliveries follow orders: W(d) = 12:00 evicts orders before 11:00.
        step(wait(job, clock, 30)),
        // W(d) = W(o) = 13:30 evicts orders before 12:30.
        step(job.feed(o("c", "13:30", 3))),
        step(job.feed(d("a", "09:59", 4), d("c", "13:40", 5), d("b", "10:30", 6))),
        step(job.feed(d("b", "10:29", 7), o("d", "13:45", 8))),
        step(job.feed(o("e", "20:00", 10), d("e", "20:00", 11)))
      )
      (out.map(_.sorted), keys(job, job.seen.last.id).map(_.toString))
    }
    val plain = story(restarts = false)
    assert(plain._1.flatten.nonEmpty)
    assert(story(restarts = true) == plain)
  }

  test("the time while a query is stopped does not count as silence") {
    running(outer() _) { (job, clock) =>
      job.feed(o("a", "10:00", 1), o("b", "12:00", 2), d("x", "10:00", 9))
      job.stop()
      clock.advance(3600000)
      job.start()
      assert(job.settle().isEmpty)
      assert(job.feed(o("b", "12:10", 3)).isEmpty)
      // Idle deliveries follow orders: W(d) = 12:10 evicts orders before 11:10.
      assert(wait(job, clock, 30) == Seq("1 -"))
      // An input that is already idle stays idle.
      job.stop()
      clock.advance(3600000)
      job.start()
      // W(d) = W(o) = 14:00 evicts orders before 13:00.
      assert(job.feed(o("c", "14:00", 4)) == Seq("2 -", "3 -"))
      assert(keys(job, job.seen.last.id).last.get("idleSinceMs").asLong == Noon + 3600000)
    }
  }

  test("with availableNow, silence adds up across runs") {
    val clock = new ManualClock(Noon)
    val made = clocked(clock)(outer() _)
    assert(made.runOnce(o("a", "10:00", 1), o("b", "12:00", 2), d("x", "10:00", 9)).isEmpty)
    clock.advance(20000)
    assert(made.runOnce(o("b", "12:00", 3)).isEmpty)
    clock.advance(10000)
    // After 30 seconds of silence, W(d) follows W(o) and evicts the order of 10:00.
    assert(made.runOnce(o("b", "12:10", 4)) == Seq("1 -"))
    assert(keys(made, made.seen.last.id).last.get("idleSinceMs").asLong == Noon)
    // A replayed batch decides the same.
    clock.advance(3600000)
    val spoken = Seq(o("b", "12:20", 5), d("b", "12:30", 6))
    assert(made.runOnce(spoken: _*) == Seq("2 6", "3 6", "4 6", "5 6"))
    clock.advance(29000)
    assert(made.runOnce(o("c", "15:00", 7)).isEmpty)
    val last = made.seen.last.id
    val before = keys(made, last).map(_.toString)
    made.uncommit()
    clock.advance(1000000)
    made.runOnce()
    assert(made.seen.count(_.id == last) == 2)
    assert(keys(made, last).map(_.toString) == before)
    // The batch's own time decides what follows from it, the time of the run what comes later.
    assert(keys(made, last + 1).forall(!_.has("idleSinceMs")))
    assert(keys(made, made.seen.last.id).exists(_.has("idleSinceMs")))
  }

  test("with availableNow, an input without a row so far is silent since the first run") {
    val clock = new ManualClock(Noon)
    val made = clocked(clock)(outer() _)
    assert(made.runOnce(o("a", "10:00", 1), o("b", "12:00", 2)).isEmpty)
    clock.advance(30000)
    // Silent for 30 seconds, W(d) follows W(o) and evicts the order of 10:00.
    assert(made.runOnce(o("b", "12:10", 4)) == Seq("1 -"))
  }

  test("a Spark aggregation above the join emits each window once") {
    running { streams =>
      val joined = streams.marked("o").join(mayBeIdle(streams, "d"), expr(Hourly), "left_outer")
      joined
        .groupBy(window(col("o.t"), "1 hour"))
        .agg(count(lit(1)).as("n"))
        .selectExpr("hour(window.start)", "n")
    } { (job, clock) =>
      job.feed(o("a", "10:00", 1), d("x", "10:00", 9))
      // W(d) = 10:00 keeps orders from 9:00 on.
      assert(job.feed(o("b", "12:30", 2)).isEmpty)
      // W(d) follows W(o) to 12:30: orders before 11:30 are emitted, and their window is complete.
      assert(wait(job, clock, 30) == Seq("10 1"))
      // The watermark that Spark gets does not go back, so no window is emitted twice.
      assert(job.feed(d("a", "10:30", 3), o("c", "13:00", 4)).isEmpty)
      // W(d) = 20:00 evicts orders before 19:00 and completes their windows.
      assert(job.feed(d("b", "13:00", 5), d("x", "20:00", 9), o("x", "20:00", 9)) == Seq("12 1", "13 1"))
    }
  }

  /** Deliveries of several partitions, one for each `id`, each with its own bounds (`v` = -1). */
  private def partitioned(streams: Streams): DataFrame = {
    val deliveries = streams.raw("d").withColumn("b", expr("v = -1"))
    val bounded = Frames.withBounds(deliveries, "t", "b", Some("0 seconds"), Some("id"))
    streams
      .marked("o")
      .join(
        Frames.idleAfter(bounded, "30 seconds").as("d"),
        expr("d.t BETWEEN o.t AND o.t + INTERVAL 1 HOUR"),
        "left_outer"
      )
      .selectExpr("o.v", "d.v")
  }

  test("the slowest partition that is not idle determines the watermark") {
    running(partitioned _) { (job, clock) =>
      job.feed(o("a", "10:00", 1), d("p0", "09:00", -1), d("p1", "09:30", -1))
      // W(d) = 10:30, that of p1, keeps orders from 9:30 on.
      job.feed(d("p0", "12:00", -1), d("p1", "10:30", -1), o("b", "10:10", 2))
      assert(job.restart().feed(d("p0", "12:30", -1)).isEmpty)
      assert(job.watermark("right") == "10:30")
      // W(d) = 11:05, that of p1, evicts orders before 10:05.
      assert(job.feed(d("p1", "11:05", -1)) == Seq("1 -"))
      clock.advance(20000)
      assert(job.feed(d("p0", "12:40", -1)).isEmpty)
      assert(job.metric("idleSinceMs.right.t") == -1)
      // p1 is silent: p0 alone determines the watermark.
      assert(wait(job, clock, 10) == Seq("2 -"))
      assert(job.watermark("right") == "12:40")
      assert(job.metric("idleSinceMs.right.t") == Noon)
      // p1 resumes; rows are late below 11:05, the lower one of what both have sent.
      assert(job.feed(o("c", "11:50", 3), d("p1", "11:04", 7), d("p1", "12:20", 8)) == Seq("3 8"))
      assert(job.operator.numRowsDroppedByWatermark == 1)
      job.feed(o("e", "12:10", 4))
      assert(job.watermark("right") == "12:40")
      assert(job.metric("idleSinceMs.right.t") == -1)
      assert(keys(job, job.seen.last.id).last.get("watermarkMs").asLong == at("12:20").getTime)
    }
  }

  test("without idle inputs, watermark entries have no more than column, watermark and newest time") {
    running(hourly()) { (job, _) =>
      job.feed(o("a", "10:00", 1), d("x", "10:00", 9))
      assert(keys(job, 1).flatMap(_.fieldNames().asScala).toSet == Set("column", "watermarkMs", "newestMs"))
    }
  }
}
