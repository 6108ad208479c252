package org.apache.spark.sql.streamjoin.watermark

import java.io.File
import java.nio.file.{Files, Path}
import java.sql.Timestamp
import java.time.Instant

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.ObjectMapper
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.functions.expr
import org.apache.spark.sql.streamjoin.{JoinTest, SparkTest}
import org.apache.spark.sql.{DataFrame, Row}

/**
 * A watermark per event-time column: what it is, when it counts, and that a restart does not change
 * it.
 */
class WatermarkSuite extends AnyFunSuite with JoinTest {
  import JoinTest._

  private val both: DataFrame => DataFrame = _.selectExpr("o.v", "d.v")

  /** The watermark files by batch, as `<o's> <d's>`. */
  private def files(job: Job): Map[Long, String] = {
    val folder = Path.of(job.checkpoint, "keyed-watermarks")
    SparkTest.numbers(folder).map(batch => batch -> watermarks(folder.resolve(batch.toString))).toMap
  }

  private def watermarks(file: Path): String = {
    // Spark's logs start with a version line; ours is JSON alone.
    val keys = new ObjectMapper().readTree(Files.readString(file)).get("keys").elements().asScala
    keys
      .map(key => Option(key.get("watermarkMs")).fold("none")(ms => clock(ms.asLong)))
      .mkString(" ")
  }

  private def clock(ms: Long): String = text(Row(Timestamp.from(Instant.ofEpochMilli(ms))))

  private def newest(job: Job, log: String): Long = SparkTest.numbers(Path.of(job.checkpoint, log)).max

  test("each event-time column has its own watermark") {
    running(job(picked("full_outer"))) { job =>
      job.feed(o("a", "10:00"), d("a", "12:00"))
      job.feed(o("b", "11:00"), d("b", "12:30"))
      assert(job.watermark("left") == "10:00" || job.watermark("left") == "11:00")
      assert(files(job)(0) == "none none")
      assert(files(job)(1) == "10:00 12:00")
      assert(files(job).maxBy(_._1)._2 == "11:00 12:30")
    }
  }

  test("a stalled stream holds back the state of its partner, and nothing else") {
    running(job(picked("full_outer"))) { job =>
      // o continues, d stalls at 10:00.
      assert(job.feed(o("a", "10:00", 1), d("a", "09:59", 9), d("b", "10:00", 1)) == Seq("- 9"))
      val out = Seq("11:00", "12:00", "13:00").flatMap(time => job.feed(o("o", time, 2)))
      // Deliveries before 13:00 match no later order: they are evicted.
      assert(out == Seq("- 1"))
      // All orders wait for deliveries.
      assert(job.state == ((4, 0)))
      assert(files(job).maxBy(_._1)._2 == "13:00 10:00")
      // Spark's single watermark stays at the slowest input.
      assert(clock(Instant.parse(job.progress.eventTime.get("watermark")).toEpochMilli) == "10:00")
      // d continues; its watermark of 13:30 evicts orders before 12:30.
      assert(job.feed(d("o", "13:30", 3)) == Seq("1 -", "2 -", "2 -", "2 3"))
      assert(job.state._1 == 1)
    }
  }

  test("a row at the watermark is not late, one below it is, and a null time is not") {
    running(job(picked("full_outer"))) { job =>
      job.feed(o("w", "10:00"), d("w", "10:00"))
      // W(1) is 10:00, and counts for late rows from batch 2 on.
      job.feed(o("w", "10:00"), d("w", "10:00"))
      val rows = job.feed(
        o("a", "10:00", 1),
        o("b", "09:59:59.999999", 2),
        o("c", null, 3),
        d("a", "10:00", 4),
        d("b", "09:59:59.999999", 5),
        d("c", null, 6)
      )
      assert(rows.filterNot(_ == "0 0") == Seq("- 6", "1 4", "3 -"))
      assert(job.seen.map(_.id).max == job.progress.batchId)
      assert(job.dropped == 2)
    }
  }

  test("late rows go by the watermark of the batch before, eviction by the newer one, after the rows") {
    running(job(picked())) { job =>
      job.feed(o("x", "10:00"), d("x", "12:00"))
      // W(1): o.t 10:00, d.t 12:00. No batch has judged late rows by it before the next rows come.
      assert(job.seen.map(_.id).toSeq == Seq(0L, 1L))
      // Batch 1 had no rows. In batch 2 rows are late by W(1).
      assert(job.feed(o("a", "10:00", 1), o("a", "09:59", 2)) == Seq("1 -"))
      assert(job.operator.numRowsDroppedByWatermark == 1)
    }
    withConf("spark.sql.streaming.noDataMicroBatches.enabled" -> "false") {
      running(job(picked())) { job =>
        job.feed(o("x", "10:00"), d("x", "12:00"))
        // W(0) is undefined: the row is not late in batch 1. It joins its batch and then expires by
        // W(1).
        assert(
          job.feed(o("a", "09:00", 1), d("a", "09:30", 2), o("b", "09:00", 3)) == Seq("0 -", "1 2", "3 -")
        )
        assert(job.operator.numRowsDroppedByWatermark == 0)
        // From now on W(1) decides which rows are late.
        assert(job.feed(o("a", "09:00", 4)).isEmpty)
        assert(job.operator.numRowsDroppedByWatermark == 1)
      }
    }
  }

  test("a watermark never goes back") {
    running(job(picked("full_outer"))) { job =>
      job.feed(o("a", "12:00"), d("a", "12:00"))
      job.feed(o("b", "09:00"), d("b", "09:00"))
      job.restart()
      job.feed(o("b", "09:30"), d("b", "09:30"))
      job.feed(o("b", "12:00", 1))
      assert(files(job).filter(_._1 > 0).values.toSet == Set("12:00 12:00"))
    }
  }

  test("the delay is subtracted, and the watermark rounded down to a millisecond") {
    val query = (streams: Streams) =>
      both(streams.marked("o", "5 minutes").join(streams.marked("d", "90 seconds"), expr(Hourly)))
    running(job(query)) { job =>
      job.feed(o("a", "10:00:00.000999"), d("a", "10:00:00.001"))
      assert(files(job)(1) == "09:55 09:58:30.001")
    }
  }

  // Restarts and replays.

  private val story: Seq[Seq[(String, Row)]] = Seq(
    Seq(o("a", "10:00", 1), o("b", "10:00", 2), d("c", "10:10", 3)),
    Seq(o("c", "10:05", 4), d("a", "10:30", 5)),
    // W(d) = 11:10 evicts orders before 10:10.
    Seq(d("x", "11:10", 6)),
    // The order of 9:00 is late: W(o) = 10:05. Then W(o) = 10:40 evicts deliveries before 10:40.
    Seq(o("late", "09:00", 7), o("y", "10:40", 8), d("y", "11:20", 9)),
    // W(d) = 13:30 evicts orders before 12:30, W(o) = 12:00 deliveries before 12:00.
    Seq(o("z", "12:00", 10), d("z", "13:30", 11))
  )

  test("a restart after every batch changes neither the rows nor the watermarks") {
    def run(restarts: Boolean): (Seq[String], Map[Long, String]) = running(job(picked("full_outer"))) { job =>
      val out = story.flatMap { rows =>
        val out = job.feed(rows: _*)
        if (restarts) job.restart()
        out
      }
      (out, files(job))
    }
    val (plain, plainFiles) = run(restarts = false)
    val (restarted, restartedFiles) = run(restarts = true)
    assert(plain == restarted)
    assert(plainFiles == restartedFiles)
  }

  test("a batch that runs again sees the same watermarks and gives the same rows") {
    running(job(picked("full_outer"))) { job =>
      story.foreach { rows =>
        job.feed(rows: _*)
        val last = job.seen.last
        val before = files(job)
        job.redoLast()
        val again = job.seen.last
        assert(again.id == last.id)
        assert(again.rows.sorted == last.rows.sorted)
        assert(before.forall { case (batch, keys) => files(job)(batch) == keys })
      }
      val once = job.seen.groupBy(_.id).values.map(_.last).flatMap(_.rows).toSeq.sorted
      val plain =
        running(this.job(picked("full_outer")))(other => story.flatMap(rows => other.feed(rows: _*)))
      assert(once == plain.sorted)
    }
  }

  test("without its newest file, a watermark resumes no lower than Spark's own") {
    running(job(picked("full_outer"))) { job =>
      // W(d) = 11:30 evicts orders before 10:30.
      job.feed(o("a", "10:00", 1), d("b", "11:30", 2))
      // W(o) = 12:00 evicts deliveries before 12:00.
      job.feed(o("c", "12:00", 3), d("d", "12:30", 4))
      val last = newest(job, "keyed-watermarks")
      val known = files(job)(last)
      assert(known == "12:00 12:30")
      job.stop()
      SparkTest.remove(Path.of(job.checkpoint, "keyed-watermarks", last.toString))
      job.start()
      job.feed(o("e", "12:10", 5))
      val resumed = files(job)(last)
      // Spark's is the lower of the two; what d was ahead of it may be lost, as in Spark.
      assert(resumed == "12:00 12:00" || resumed == known, resumed)
      // W(d) = 20:00 evicts orders before 19:00, W(o) = 20:00 deliveries before 20:00.
      val out = job.feed(o("z", "20:00", 0), d("z", "20:00", 0))
      assert(
        out.toSet == Set("3 -", "- 4", "5 -", "0 0") || out.toSet.subsetOf(Set("3 -", "- 4", "5 -", "0 0"))
      )
      assert(job.seen.flatMap(_.rows).sorted.toSeq == Seq("- 2", "- 4", "0 0", "1 -", "3 -", "5 -"))
    }
  }

  testLong("the log of watermarks is kept no longer than Spark's own logs") {
    withConf("spark.sql.streaming.minBatchesToRetain" -> "2") {
      running(job(picked())) { job =>
        (0 until 30).foreach(n => job.feed(o("a", f"10:$n%02d"), d("b", f"10:$n%02d")))
        val kept = files(job).keys.toSeq.sorted
        val last = newest(job, "commits")
        assert(kept.size <= 15, s"$kept")
        assert((last - 1 to last).forall(kept.contains), "what a replay needs")
        job.restart()
        assert(job.feed(o("q", "10:40", 1), d("q", "10:41", 2)) == Seq("1 2"))
      }
    }
  }

  test("with a single batch per run, neither the log nor the late rows grow") {
    withConf(
      "spark.sql.streaming.minBatchesToRetain" -> "2",
      "spark.sql.streaming.noDataMicroBatches.enabled" -> "false",
      "spark.streamjoin.lateRows" -> "keep",
      "spark.streamjoin.lateRows.maxBytes" -> "1"
    ) {
      running(job(picked())) { job =>
        (0 until 12).foreach { n =>
          job.feed(o("a", f"10:$n%02d"), d("b", f"10:$n%02d"), d("late", "09:00"))
          job.restart()
        }
        assert(files(job).size <= 4, s"${files(job).keys}")
        val late = new File(s"${job.checkpoint}/late-rows").list().filter(_.endsWith(".json"))
        assert(late.length <= 2, late.toSeq)
      }
    }
  }

  // Which rows move a watermark.

  private def filtered(streams: Streams): DataFrame = {
    val left = streams.raw("o").withWatermark("t", "0 seconds").where("v > 0").as("o")
    both(left.join(streams.marked("d"), expr(Hourly), "left_outer"))
  }

  private def beforeFilter[T](body: => T): T =
    withConf("spark.streamjoin.watermarkBeforeFilter" -> "true")(body)

  test("rows filtered after withWatermark do not move it, as in Spark, unless watermarkBeforeFilter is set") {
    running(job(filtered)) { job =>
      job.feed(o("a", "10:00", 1), o("gone", "12:00", -1), d("x", "10:00"))
      assert(files(job)(1) == "10:00 10:00")
    }
    beforeFilter {
      running(job(filtered)) { job =>
        job.feed(o("a", "10:00", 1), o("gone", "12:00", -1), d("x", "10:00"))
        assert(files(job)(1) == "12:00 10:00")
      }
    }
  }

  test("rows that a filter on the event time, or a nondeterministic one, removes still move the watermark") {
    running(job { streams =>
      val left =
        streams.raw("o").withWatermark("t", "0 seconds").where("t < '2024-06-01 11:00:00' AND rand() >= 0")
      both(left.as("o").join(streams.marked("d"), expr(Hourly), "left_outer"))
    }) { job =>
      job.feed(o("a", "10:00", 1), o("gone", "12:00", -1), d("x", "10:00"))
      assert(files(job)(1) == "12:00 10:00")
    }
  }

  test("a filter inferred from the other input holds the watermark back in every batch") {
    running(job { streams =>
      val left = streams.raw("o").where("v = 1").withWatermark("t", "0 seconds").as("o")
      both(left.join(streams.marked("d"), expr(s"$Hourly AND o.v = d.v")))
    }) { job =>
      // Spark infers nothing about an input that has no rows in a batch.
      job.feed(d("x", "12:00", 2), d("x", "10:00", 1))
      assert(files(job)(1) == "none 10:00")
      job.feed(o("a", "10:00", 1), d("x", "13:00", 2))
      assert(files(job)(2) == "10:00 10:00")
    }
  }

  test("rows filtered before withWatermark do not move the watermark") {
    running(job { streams =>
      val left = streams.raw("o").where("v > 0").withWatermark("t", "0 seconds").as("o")
      both(left.join(streams.marked("d"), expr(Hourly)))
    }) { job =>
      job.feed(o("a", "10:00", 1), o("gone", "12:00", -1), d("x", "10:00"))
      assert(files(job)(1) == "10:00 10:00")
    }
  }

  test("rows that the join itself filters move the watermark only if watermarkBeforeFilter is set") {
    // Spark puts `isnotnull` of the keys, and conditions on one input, below the join; the query
    // does not have them there.
    def fed(job: Job): String = {
      job.feed(o(null, "12:00"), d("x", "11:00", -1), o("x", "10:00"), d(null, "12:30", 1))
      files(job)(1)
    }
    running(job(picked("inner", s"$Hourly AND d.v > 0")))(job => assert(fed(job) == "10:00 none"))
    beforeFilter {
      running(job(picked("inner", s"$Hourly AND d.v > 0")))(job => assert(fed(job) == "12:00 12:30"))
    }
  }

  test("a stream with one watermark, joined with itself, has that one watermark, as in Spark") {
    def halves(slow: DataFrame, fast: DataFrame): DataFrame =
      both(slow.where("v > 0").as("o").join(fast.where("v < 0").as("d"), expr(Hourly), "left_outer"))
    def marked(streams: Streams) = streams.raw("o").withWatermark("t", "0 seconds")
    val rows = Seq(o("a", "10:00", 1), o("a", "10:30", -1), o("b", "10:00", 2), o("x", "12:00", -3))
    running(job { streams =>
      val events = marked(streams)
      halves(events, events)
    }) { job =>
      job.feed(rows: _*)
      assert(files(job)(1) == "12:00 12:00")
      assert(job.seen.flatMap(_.rows).sorted.toSeq == Seq("1 -1", "2 -"))
    }
    // With `withWatermark` on each half, each half has its own.
    running(job(streams => halves(marked(streams), marked(streams)))) { job =>
      job.feed(rows: _*)
      assert(files(job)(1) == "10:00 12:00")
      job.restart()
      job.feed(o("c", "10:20", 3))
      assert(files(job).maxBy(_._1)._2 == "10:20 12:00")
    }
  }

  test("a union has the lowest watermark of its branches") {
    running(job { streams =>
      def branch(name: String) = streams.raw(name).withWatermark("t", "0 seconds")
      both(streams.marked("o").join(branch("d").union(branch("e")).as("d"), expr(Hourly), "left_outer"))
    }) { job =>
      job.feed(o("a", "10:00", 1), d("x", "14:00", 0))
      // e has had no row yet.
      assert(job.watermark("right") == "none")
      // W(d) = 10:30, that of e, keeps orders from 9:30 on.
      job.feed("e" -> row("x", "10:30", 0))
      job.feed("e" -> row("a", "10:45", 2))
      assert(job.watermark("right") == "10:30")
      assert(job.seen.flatMap(_.rows).toSeq == Seq("1 2"))
      // W(d) = 11:30 evicts orders before 10:30.
      job.feed(o("b", "10:00", 3), "e" -> row("x", "11:30", 0))
      assert(job.watermark("right") == "11:30")
      assert(job.seen.flatMap(_.rows).toSeq == Seq("1 2", "3 -"))
    }
  }

  // Batches without data.

  test("batches without data run only if something can be evicted") {
    running(job(picked("left_outer"))) { job =>
      // watermark of d.t 10:30: no order is below it minus an hour
      assert(job.batches(o("a", "10:00", 1), d("x", "10:30")).size == 1)
      assert(job.batches(d("x", "10:45")).size == 1)
      // watermark of d.t 11:00: at the limit an order may still match a delivery
      assert(job.batches(d("x", "11:00")).size == 1)
      // Past the limit, one more batch evicts the order.
      val batches = job.batches(d("x", "11:00:00.001"))
      assert(batches.map(_.rows) == Seq(Nil, Seq("1 -")))
      // Nothing is left to evict, however far the watermark moves.
      assert(job.batches(d("x", "20:00")).size == 1)
      // Deliveries are evicted by the watermark of orders.
      assert(job.state == ((0, 5)))
      assert(job.batches(o("y", "10:45")).size == 2)
      assert(job.state._2 == 4)
      // The watermark does not move.
      assert(job.batches(o("y", "10:45")).size == 1)
    }
  }

  test("no batches without data run if Spark's setting switches them off") {
    withConf("spark.sql.streaming.noDataMicroBatches.enabled" -> "false") {
      running(job(picked("left_outer"))) { job =>
        assert(job.batches(o("a", "10:00", 1), d("x", "20:00")).map(_.rows) == Seq(Nil))
        // This batch uses W(d) = 20:00, which evicts orders before 19:00.
        assert(job.batches(d("x", "20:00")).map(_.rows) == Seq(Seq("1 -")))
      }
    }
  }
}
