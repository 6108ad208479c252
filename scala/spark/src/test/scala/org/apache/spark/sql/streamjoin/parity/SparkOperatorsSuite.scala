package org.apache.spark.sql.streamjoin.parity

import java.sql.Timestamp

import scala.collection.mutable

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.functions._
import org.apache.spark.sql.streaming._
import org.apache.spark.sql.streamjoin.{Frames, JoinTest, SparkTest}
import org.apache.spark.sql.{AnalysisException, DataFrame, Encoders}

import streamjoin.StreamJoin

/** Which watermark Spark's own stateful operators wait for, in one query with our joins. */
class SparkOperatorsSuite extends AnyFunSuite with JoinTest {
  import JoinTest._

  private val quarter = "15 minutes"

  /** Counts rows per ten minutes of a time column. */
  private def counted(time: String)(joined: DataFrame): DataFrame =
    joined.groupBy(window(col(time), "10 minutes")).agg(count("*").as("n")).selectExpr("window.start", "n")

  // Above a join.

  test("a windowed aggregation above a join drops no row that the join emits late") {
    // Unmatched orders are emitted once the deliveries are an hour past them.
    running(
      job(streams =>
        hourly("left_outer")(streams)
          .groupBy(window(col("o.t"), quarter))
          .agg(count("*").as("n"), count(col("d.v")).as("m"))
          .selectExpr("window.start", "n", "m")
      )
    ) { job =>
      val out = mutable.ArrayBuffer.empty[String]
      val times =
        Seq("10:00", "10:10", "10:20", "10:40", "11:05", "11:30", "12:00", "12:40", "13:30", "16:00", "20:00")
      times.zipWithIndex.foreach { case (time, n) =>
        out ++= job.feed(o(s"a$n", time, n), d(s"a${n - 1}", time, n))
      }
      // Each order from 10:00 to 13:30 has a delivery less than an hour later, except the last
      // three.
      val expected =
        Seq("10:00 2 2", "10:15 1 1", "10:30 1 1", "11:00 1 1", "11:30 1 1", "12:00 1 1", "12:30 1 1")
      assert(
        out
          .filterNot(row => row.startsWith("13") || row.startsWith("16") || row.startsWith("20"))
          .sorted == expected
      )
      assert(job.dropped == 0)
    }
  }

  test("a windowed aggregation above a join emits every window in the end") {
    val types = Seq("inner", "left_outer", "left_semi", "left_anti")
    for (how <- SparkTest.part(types, every = 2, from = 1))
      running(
        job(streams =>
          hourly(how)(streams)
            .groupBy(window(col("o.t"), quarter))
            .agg(count("*").as("n"))
            .selectExpr("window.start", "n")
        )
      ) { job =>
        job.feed(o("a", "10:00", 1), d(if (how == "left_anti") "x" else "a", "10:30", 2))
        job.feed(o("end", "20:00"), d("end", "20:00")) // watermarks 20:00
        job.feed(o("end", "21:00"), d("end", "21:00")) // watermarks 21:00
        val out = job.seen.flatMap(_.rows).filter(_.startsWith("10:"))
        assert(out.toSeq == Seq("10:00 1"), how)
      }
  }

  for (how <- Seq("left_semi", "left_anti")) test(s"$how: only the left times have a watermark above it") {
    running(
      job(streams =>
        hourly(how, "o.id = d.id AND o.t BETWEEN d.t AND d.t + INTERVAL 1 HOUR")(streams)
          .groupBy(window(col("o.t"), quarter))
          .agg(count("*").as("n"))
          .selectExpr("window.start", "n")
      )
    ) { job =>
      job.feed(o("a", "10:00", 1), d(if (how == "left_semi") "a" else "b", "10:00", 1))
      // watermarks 10:20: deliveries match orders of the next hour, so orders before 10:20 are done
      job.feed(o("x", "10:20", 1), d("x", "10:20", 1))
      job.feed(o("x", "10:20", 1), d("x", "10:20", 1))
      assert(job.seen.flatMap(_.rows).toSeq == Seq("10:00 1"))
    }
  }

  test("an aggregation above a chain waits for the watermark of its own column") {
    def r(id: String, time: String) = "r" -> row(id, time)
    val returned = "r.id = d.id AND r.t BETWEEN d.t AND d.t + INTERVAL 30 MINUTES"
    val query: Streams => DataFrame =
      streams => counted("r.t")(hourly()(streams).join(streams.marked("r"), expr(returned), "left_outer"))
    running(job(query)) { job =>
      job.feed(o("a", "10:00"), d("a", "10:05"), r("a", "10:06"))
      assert(job.seen.flatMap(_.rows).isEmpty)
      // watermarks 10:30: no delivery before 10:30 can come, so no return before 10:30 can match
      val out = job.feed(o("b", "10:30"), d("b", "10:30"), r("b", "10:30"))
      assert(out == Seq("10:00 1"), "no more rows are needed, only the watermarks")
      // watermarks 13:00: in the same way, the window of 10:30 is complete
      assert(job.feed(o("c", "13:00"), d("c", "13:00"), r("c", "13:00")) == Seq("10:30 1"))
      assert(job.dropped == 0)
    }
  }

  test("an aggregation by one column does not wait for another column") {
    // Orders may be a day older than deliveries; the windows are of deliveries.
    val daily = hourly("inner", "o.id = d.id AND d.t BETWEEN o.t AND o.t + INTERVAL 24 HOURS")
    running(job(daily.andThen(counted("d.t")))) { job =>
      job.feed(o("a", "10:00"), d("a", "10:05"))
      // watermarks 10:40: the window of deliveries from 10:00 to 10:10 is complete
      assert(job.feed(o("b", "10:40"), d("b", "10:40")) == Seq("10:00 1"))
    }
  }

  test("a replayed batch of an aggregation above a join gives the same rows") {
    running(job(hourly().andThen(counted("d.t")))) { job =>
      job.feed(o("a", "10:00"), d("a", "10:05"))
      // The deliveries stand still, and Spark's watermark with them; the orders continue.
      job.feed(o("b", "10:40"))
      // watermarks 10:50: the window of deliveries from 10:00 to 10:10 is complete
      job.feed(o("c", "10:50"), d("c", "10:50"))
      // watermarks 11:50: so is that from 10:50 to 11:00
      job.feed(o("e", "11:50"), d("e", "11:50"))
      val before = job.seen.toSeq
      val plain = before.groupBy(_.id).transform((_, same) => same.last.rows.sorted)
      (1 to 2).foreach { _ =>
        val last = job.redoLast()
        assert(job.seen.last.id == last, s"batch $last")
        assert(job.seen.last.rows.sorted == plain(last), s"batch $last")
      }
    }
  }

  test("an aggregation above a chain does not wait longer than its column, if one is below the chain") {
    // Windows of orders, each with the deliveries of the hour after it, and these with the returns
    // of ten minutes. The upper join gets no watermark later than an hour behind: that of a window.
    val query: Streams => DataFrame = streams => {
      val windows = streams
        .marked("o")
        .groupBy(window(col("t"), "10 minutes"), col("id"))
        .agg(count("*").as("n"))
        .selectExpr("id", "window_time(window) AS counted")
        .as("w")
      val delivered = "w.id = d.id AND d.t BETWEEN w.counted AND w.counted + INTERVAL 1 HOUR"
      val returned = "r.id = d.id AND r.t BETWEEN d.t AND d.t + INTERVAL 10 MINUTES"
      counted("d.t")(
        windows.join(streams.marked("d"), expr(delivered)).join(streams.marked("r"), expr(returned))
      )
    }
    running(job(query)) { job =>
      def all(id: String, times: String*) = Seq("o", "d", "r").zip(times).map { case (name, time) =>
        name -> row(id, time)
      }
      assert(job.feed(all("a", "11:00", "11:15", "11:16"): _*).isEmpty)
      // watermarks 12:00: deliveries before 11:50 have all their returns, so the window of 11:10 is
      // complete
      assert(job.feed(all("z", "12:00", "12:00", "12:00"): _*) == Seq("11:10 1"))
      val last = job.redoLast()
      assert(job.seen.filter(_.id == last).map(_.rows) == Seq(Seq("11:10 1"), Seq("11:10 1")))
      assert(job.dropped == 0)
    }
  }

  test("a row at the watermark of its column is not late for Spark's operators above") {
    val all: Seq[Streams => DataFrame] = Seq(
      hourly().andThen(_.select("o.id", "o.t").dropDuplicates("id", "t")),
      hourly().andThen(
        _.select("o.id", "o.t").groupBy("t").agg(max("id"), max("t")).selectExpr("`max(id)`", "t")
      )
    )
    SparkTest.part(all, every = 2).foreach { query =>
      running(job(query)) { job =>
        job.feed(o("x", "10:00"), o("y", "12:00"), d("q", "11:00"))
        // watermarks: o.t 12:00, d.t 11:00
        job.feed(o("z", "12:00"))
        // At the watermark of deliveries, 11:00. It matches an order of 10:00, which is then the
        // watermark of `o.t` above the join.
        job.feed(d("x", "11:00"))
        job.feed(o("end", "20:00"), d("end", "20:00"))
        job.feed(o("end", "22:00"), d("end", "22:00"))
        assert(job.seen.flatMap(_.rows).filter(_.startsWith("x")) == Seq("x 10:00"))
      }
    }
  }

  test("a column selected twice keeps its watermark after the join") {
    val query: Streams => DataFrame = streams => {
      val orders = streams.marked("o").select("id", "t", "v", "t").toDF("id", "t", "v", "again").as("o")
      counted("o.t")(orders.join(streams.marked("d"), expr(Hourly)))
    }
    running(job(query)) { job =>
      job.feed(o("a", "10:00"), d("a", "10:05"))
      // watermarks 12:00: orders before 11:00 are evicted, so the window of 10:00 is complete
      assert(job.feed(o("b", "12:00"), d("b", "12:00")) == Seq("10:00 1"))
    }
  }

  test("a column without a bound to any other has no watermark after a join") {
    // An aggregate may stand for many rows: nothing is known of its times relative to each other.
    def byDelivery(streams: Streams): DataFrame = hourly()(streams)
      .groupBy(window(col("o.t"), "10 minutes"), col("d.t").as("delivered"))
      .agg(max("o.id").as("id"))
      .selectExpr("id", "window_time(window) AS ordered", "delivered")
      .as("f")
    val returned = "f.id = r.id AND r.t BETWEEN f.ordered AND f.ordered + INTERVAL 1 HOUR"
    def first(streams: Streams, condition: String): DataFrame =
      byDelivery(streams).join(streams.marked("r"), expr(condition))
    def second(rows: DataFrame, streams: Streams): DataFrame = rows
      .join(streams.marked("e"), expr("f.id = e.id AND e.t BETWEEN ordered AND ordered + INTERVAL 1 HOUR"))
    def third(rows: DataFrame, streams: Streams): DataFrame = rows.join(
      streams.marked("p"),
      expr("f.id = p.id AND p.t BETWEEN delivered AND delivered + INTERVAL 1 HOUR")
    )
    val above = Seq[(DataFrame, Streams) => DataFrame](
      third,
      (rows, streams) => third(second(rows, streams), streams),
      (rows, _) => counted("delivered")(rows),
      (rows, _) => Frames.sorted(rows, "delivered")
    )
    for (rest <- above) {
      val streams = newStreams()
      def bounds(condition: String) = StreamJoin.bounds(rest(first(streams, condition), streams)).count()
      val error = intercept[AnalysisException](bounds(returned))
      assert(error.getCondition == "STREAMJOIN_WATERMARK_UNDEFINED", error.getMessage)
      assert(error.getMessageParameters.get("column") == "f.delivered")
      val rewrite = error.getMessageParameters.get("rewrite")
      assert(rewrite == "f.delivered >= r.t - INTERVAL 1 HOUR")
      assert(bounds(s"$returned AND $rewrite") > 0)
    }
  }

  test("a common table expression is read once, however often it is joined") {
    val query = (streams: Streams) => {
      streams.marked("o").createOrReplaceTempView("o")
      spark.sql("""
        WITH x AS (SELECT * FROM o) SELECT a.v AS a, b.v AS b FROM x a
        JOIN x b ON a.id = b.id AND b.t > a.t AND b.t <= a.t + INTERVAL 1 HOUR""")
    }
    running(job(query)) { job =>
      assert(job.feed(o("a", "10:00", 1), o("a", "10:30", 2)) == Seq("1 2"))
      job.restart()
      assert(job.feed(o("a", "11:10", 3), o("b", "11:00", 4)) == Seq("2 3"))
      assert(job.streaming.lastProgress.sources.length == 1)
    }
  }

  testLong("transformWithState in Scala passes the event time of its rows on") {
    val query = (streams: Streams) => {
      val passed = streams
        .marked("o")
        .as[SparkOperatorsSuite.Event](Encoders.product[SparkOperatorsSuite.Event])
        .groupByKey(_.id)(Encoders.STRING)
        .transformWithState(new SparkOperatorsSuite.Passing, "t", OutputMode.Append)(
          Encoders.product[SparkOperatorsSuite.Event]
        )
        .toDF()
        .as("o")
      passed.join(streams.marked("d"), expr(Hourly)).selectExpr("o.v AS a", "d.v AS b")
    }
    withConf(
      "spark.sql.streaming.stateStore.providerClass" ->
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ) {
      running(job(query)) { job =>
        job.feed(o("a", "10:00", 1), d("a", "10:30", 2))
        job.feed(o("a", "10:40", 3), d("a", "10:50", 4))
        assert(job.seen.flatMap(_.rows).sorted == Seq("1 2", "1 4", "3 4"))
      }
    }
  }

  testLong("a row exactly at the end of a session extends it") {
    val sessions: Streams => DataFrame = hourly().andThen(
      _.groupBy(col("o.id"), session_window(col("o.t"), "10 minutes"))
        .count()
        .selectExpr("id", "session_window.start", "count")
    )
    running(job(sessions)) { job =>
      job.feed(o("a", "10:00"), d("a", "10:00"))
      job.feed(o("z", "10:10"), d("z", "10:10"), d("q", "11:10"))
      // W(o) = 10:10, W(d) = 11:10: neither row is late, so the session of 10:00 is still open.
      job.feed(o("a", "10:10"), d("a", "11:10"))
      Seq("20:00", "21:00", "22:00").foreach(end => job.feed(o("end", end), d("end", end)))
      assert(job.seen.flatMap(_.rows).filter(_.startsWith("a")) == Seq("a 10:00 2"))
    }
  }

  testLong("window_time can be taken anywhere above an aggregation") {
    def perWindow(rows: DataFrame): DataFrame =
      rows.groupBy(window(col("t"), quarter), col("id")).agg(count("*").as("n"))
    val all = Seq[Streams => DataFrame](
      streams => perWindow(streams.marked("o")),
      streams => perWindow(streams.marked("o")).where("n > 0"),
      streams => perWindow(streams.marked("o")).union(perWindow(streams.marked("p")))
    )
    all.foreach { counts =>
      val query: Streams => DataFrame = streams =>
        counts(streams)
          .selectExpr("id", "n", "window_time(window) AS t")
          .as("o")
          .join(streams.marked("d"), expr(Hourly), "left_outer")
          .select("o.id", "n", "d.v")
      running(job(query)) { job =>
        job.feed(o("a", "10:00"), o("a", "10:05"), o("b", "10:00"), d("a", "10:20", 7))
        for (end <- Seq("14:00", "16:00", "18:00"))
          job.feed(o("end", end), "p" -> row("end", end), d("end", end))
        assert(withoutClosingRows(job.seen.flatMap(_.rows), "end").sorted == Seq("a 2 7", "b 1 -"))
      }
    }
  }

  test(
    "allowMultiple=false is rejected above a join that emits rows later, else it works as in Spark"
  ) {
    withConf("spark.sql.streaming.statefulOperator.allowMultiple" -> "false") {
      def query(how: String): Streams => DataFrame =
        streams => hourly(how)(streams).groupBy(window(col("o.t"), "10 minutes")).agg(count("*").as("n"))
      for (how <- Seq("left_outer", "full_outer", "left_anti")) {
        val error = intercept[AnalysisException](job(query(how)).start())
        assert(error.getCondition == "STREAMJOIN_SINGLE_WATERMARK")
        assert(error.getMessage.contains("allowMultiple=true"))
      }
      running(job(query("inner")(_).select("n"))) { job =>
        job.feed(o("a", "10:00", 1), d("a", "10:00", 2), d("a", "10:05", 3))
        // watermarks 12:00: the window of 10:00 is complete
        assert(job.feed(o("x", "12:00"), d("x", "12:00")) ++ job.settle() == Seq("2"))
      }
    }
  }

  // Below a join.

  test("windows of an aggregation below a join are not late, and are evicted in time") {
    running(job { streams =>
      val counts = streams
        .raw("o")
        .withWatermark("t", "0 seconds")
        .groupBy(window(col("t"), quarter), col("id"))
        .agg(count("*").as("n"))
        .selectExpr("id", "window", "n")
        .as("o")
      val other = streams
        .raw("d")
        .withWatermark("t", "0 seconds")
        .withColumn("window", window(col("t"), quarter))
        .as("d")
      counts
        .join(other, expr("o.id = d.id AND o.window = d.window"), "left_outer")
        .selectExpr("o.window.start", "n", "d.v")
    }) { job =>
      job.feed(o("a", "10:00"), o("a", "10:14"), o("b", "10:00"), d("a", "10:10", 1))
      // watermarks 10:20: the windows from 10:00 to 10:15 are complete below the join
      job.feed(o("x", "10:20"), d("x", "10:20", 2))
      job.feed(o("x", "10:40"), d("x", "10:40", 3))
      job.feed(o("x", "11:40"), d("x", "11:40", 4))
      job.feed(o("x", "15:40"), d("x", "15:40", 5))
      val out = job.seen.flatMap(_.rows).toSeq
      assert(out.filter(_.startsWith("10:00")).sorted == Seq("10:00 1 -", "10:00 2 1"))
      assert(out.count(_.startsWith("10:15")) == 1)
      assert(out.count(_.startsWith("10:30")) == 1)
      assert(job.dropped == 0)
    }
  }

  test("rows that are deduplicated below a join are joined once") {
    running(job { streams =>
      val once = streams.raw("o").withWatermark("t", "0 seconds").dropDuplicates("id", "t").as("o")
      once.join(streams.marked("d"), expr(Hourly), "left_outer").selectExpr("o.v", "d.v")
    }) { job =>
      job.feed(o("a", "10:00", 1), o("a", "10:00", 1))
      assert(job.feed(o("a", "10:00", 1), d("a", "10:30", 2)) == Seq("1 2"))
      assert(job.state._1 == 1)
    }
  }
}

object SparkOperatorsSuite {
  final case class Event(id: String, t: Timestamp, v: Int)

  /** Emits its input rows unchanged. */
  final class Passing extends StatefulProcessor[String, Event, Event] {
    override def init(outputMode: OutputMode, timeMode: TimeMode): Unit = ()

    override def handleInputRows(
        key: String,
        rows: Iterator[Event],
        timers: TimerValues
    ): Iterator[Event] = rows
  }
}
