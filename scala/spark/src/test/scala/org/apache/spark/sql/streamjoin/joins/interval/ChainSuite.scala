package org.apache.spark.sql.streamjoin.joins.interval

import java.sql.Timestamp

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.functions._
import org.apache.spark.sql.streaming.StateOperatorProgress
import org.apache.spark.sql.streamjoin.{JoinTest, SparkTest, TraceQuery}
import org.apache.spark.sql.{Column, DataFrame, Row}

import streamjoin.StreamJoin

/**
 * Chains of joins: how the watermark of each column passes through the plan, and the state that
 * follows.
 */
class ChainSuite extends AnyFunSuite with JoinTest {
  import JoinTest._

  private def r(id: String, time: String, v: Int = 0): (String, Row) = "r" -> row(id, time, v)

  private val Returned = "r.id = d.id AND r.t BETWEEN d.t AND d.t + INTERVAL 30 MINUTES"

  /** Orders, deliveries within an hour, returns within half an hour of the delivery. */
  private def chain(first: String = "inner", second: String = "inner"): Streams => DataFrame = streams =>
    hourly(first)(streams).join(streams.marked("r"), expr(Returned), second)

  private def values(names: String*): Seq[Column] = names.map(name => col(s"$name.v"))

  /** The values of all three, and the time of the order, which has no bound in the second join. */
  private def timed(joined: DataFrame): DataFrame =
    joined.select(values("o", "d", "r") :+ col("o.t").as("ordered"): _*)

  private def timedJob(query: Streams => DataFrame): Job = {
    val made = job(query.andThen(timed))
    made.sink = _.drop("ordered").collect().map(text(_: Row)).toSeq
    made
  }

  /** The joins of a left-deep chain, lowest first. */
  private def operators(job: Job): Seq[StateOperatorProgress] = job.progress.stateOperators.toSeq.reverse

  private def inState(job: Job): Seq[(Long, Long)] = operators(job).map { operator =>
    (
      operator.customMetrics.get("leftRowsInState").longValue,
      operator.customMetrics.get("rightRowsInState").longValue
    )
  }

  private def watermarks(operator: StateOperatorProgress, keys: String*): Seq[String] = keys.map { key =>
    Option(operator.customMetrics.get(s"watermarkMs.$key"))
      .fold("none")(ms => text(Row(new Timestamp(ms.longValue))))
  }

  test("the three-stream example of the Hazelcast document has the documented watermarks and rows") {
    // Punctuation moves the watermarks, and a filter after withWatermark removes it. Data rows are
    // far behind it.
    def at(time: Long): Timestamp = new Timestamp((TraceQuery.Origin + time) * 1000)
    def marked(streams: Streams, name: String) =
      streams.raw(name).withWatermark("t", s"${TraceQuery.Far} seconds").where("v = 0").as(name)
    def data(name: String, id: String, time: Long) = name -> Row(id, at(time), 0)
    val query: Streams => DataFrame = streams =>
      marked(streams, "o")
        .join(
          marked(streams, "d"),
          expr("o.id = d.id AND d.t BETWEEN o.t - INTERVAL 1 SECOND AND o.t + INTERVAL 3 SECONDS")
        )
        .join(
          marked(streams, "r"),
          expr("d.v = r.v AND r.t BETWEEN d.t - INTERVAL 1 SECOND AND d.t + INTERVAL 4 SECONDS")
        )
        .selectExpr("o.id", "r.id", "o.t")

    withConf("spark.streamjoin.watermarkBeforeFilter" -> "true")(running(job(query)) { job =>
      job.sink = _.drop("t").collect().map(text(_: Row)).toSeq
      def watermark(name: String, time: Long): Unit = {
        val punctuation = name -> Row("", at(time + TraceQuery.Far), 1)
        // Batch N evicts by the rows of batches before it, and finds late rows by the watermarks of
        // N - 1.
        job.feed(punctuation)
        job.feed(punctuation): Unit
      }
      def second: Seq[Any] = {
        val join = operators(job)(1)
        val seconds = Seq("left.o.t", "left.d.t", "right.t").map { key =>
          // Data rows move a watermark too, to far below themselves.
          val known = Option(join.customMetrics.get(s"watermarkMs.$key")).map(_ / 1000 - TraceQuery.Origin)
          known.filter(_ > 0).fold("-")(_.toString)
        }
        seconds :+ inState(job)(1)
      }
      assert(job.feed(data("o", "a", 102), data("d", "a", 101)).isEmpty)
      assert(job.feed(data("o", "b", 102), data("d", "b", 103)).isEmpty)
      // Deliveries wait in the first join for orders that can still arrive.
      assert(job.feed(data("d", "c", 102), data("d", "e", 106)).isEmpty)
      assert(second == Seq("-", "-", "-", ((2, 0))))
      assert(inState(job).head == ((2, 4)))
      watermark("o", 103)
      assert(second == Seq("-", "-", "-", ((2, 0))), "no watermark is passed on before d has one")
      assert(job.feed(data("r", "x", 100)) == Seq("a x"))
      assert(second == Seq("-", "-", "-", ((2, 1))))
      // The first join keeps orders from 106 - 3 and deliveries from 103 - 1 on; its output
      // watermarks follow.
      watermark("d", 106)
      assert(second == Seq("103", "102", "-", ((2, 0))), "returns before 102 - 1 are evicted")
      watermark("r", 110)
      assert(second == Seq("103", "102", "110", ((0, 0))), "pairs with deliveries before 110 - 4 are evicted")
      // Rule 1: no later row could match an evicted one. This pair is not late, but has
      // expired, so it is not buffered.
      assert(job.feed(data("o", "c", 103)).isEmpty)
      assert(second == Seq("103", "102", "110", ((0, 0))))
      assert(operators(job)(1).numRowsDroppedByWatermark == 0)
      assert(job.feed(data("r", "y", 110)).isEmpty)
      // Rule 2: the earliest delivery that is kept matches the earliest return that can still come.
      assert(job.feed(data("o", "e", 103)) == Seq("e y"))
      assert(second == Seq("103", "102", "110", ((1, 1))))
    })
  }

  testLong("a stalled third stream does not grow the state of the first join") {
    running(timedJob(chain("left_outer", "left_outer"))) { job =>
      job.feed(o("z", "09:00"), d("z", "09:00"), r("z", "09:00"))
      val hours = if (SparkTest.isLong) 10 else 3
      val sizes = for (minute <- 0 until hours * 60 by 10) yield {
        val time = f"${10 + minute / 60}:${minute % 60}%02d"
        job.feed(o(s"a$minute", time, minute), d(s"a$minute", time, minute))
        inState(job)
      }
      // An hour of orders, and only deliveries that are not behind the orders.
      assert(sizes.drop(8).map(_.head).forall { case (orders, deliveries) => orders <= 9 && deliveries <= 2 })
      // The pairs wait for returns in the second join.
      assert(sizes.last(1)._1 >= 5 * hours)
      assert(
        watermarks(operators(job)(1), "left.o.t", "left.d.t", "right.t") ==
          Seq(s"${8 + hours}:50", s"${9 + hours}:50", "09:00")
      )
      // They are emitted once returns continue. After ten hours W(r) = 19:00 evicts pairs with
      // deliveries before 18:30.
      val out = job.feed(r("a0", "10:10", 7), r("x", s"${9 + hours}:00"))
      assert(out.contains("0 0 7"))
      assert(out.size == 6 * hours - 9)
    }
  }

  for (
    (first, second) <- Seq(
      "inner" -> "inner",
      "left_outer" -> "inner",
      "inner" -> "left_outer",
      "full_outer" -> "full_outer"
    )
  )
    test(s"$first, then $second: a column without a bound gets its watermark from the join below") {
      running(timedJob(chain(first, second))) { job =>
        job.feed(o("a", "12:00", 1), d("a", "12:00", 2), r("a", "12:00", 3))
        job.feed(o("b", "12:00", 1), d("b", "12:00", 2), r("b", "12:00", 3))
        val joins = job.joins.sortBy(_.join.ordinal)
        // The second join receives o.t 11:00 and d.t 12:00. Returns at 12:00 hold deliveries at
        // 11:30, and these hold orders at 10:30.
        val after = job.streaming.recentProgress.last
        assert(after.stateOperators.map(_.numRowsDroppedByWatermark).sum == 0)
        val second = joins(1).join
        assert((0 until 3).map(second.bounds.expires) == Seq(false, true, true))
        assert(second.bounds.reaching(0).map(bound => (bound.in, bound.postpone)) == Seq((1, 3600000000L)))
        assert(second.outputWatermarksForSpark.forall(_.isDefined))
      }
    }

  test("a stream can be joined with itself twice") {
    val query: Streams => DataFrame = streams => {
      def events(kind: Int, name: String) =
        streams.raw("o").withWatermark("t", "0 seconds").where(s"v % 10 = $kind").as(name)
      events(1, "a")
        .join(events(2, "b"), expr("a.id = b.id AND b.t BETWEEN a.t AND a.t + INTERVAL 1 HOUR"), "left_outer")
        .join(events(3, "c"), expr("a.id = c.id AND c.t BETWEEN a.t AND a.t + INTERVAL 1 HOUR"), "left_outer")
        .select(values("a", "b", "c"): _*)
    }
    running(job(query)) { job =>
      job.feed(o("x", "10:00", 11), o("y", "10:00", 21), o("x", "10:10", 12))
      assert(job.feed(o("x", "10:20", 13), o("y", "10:30", 23)) == Seq("11 12 13"))
      // Watermarks of 12:00 evict rows of a before 11:00.
      val later = Seq(o("q", "12:00", 1), o("q", "12:00", 2), o("q", "12:00", 3))
      assert(job.feed(later: _*) == Seq("1 2 3", "21 - 23"))
    }
  }

  test("unions can stand before, between and after joins") {
    val query: Streams => DataFrame = streams => {
      def branch(name: String) = streams.raw(name).withWatermark("t", "0 seconds")
      val orders = branch("o").union(branch("p")).as("o")
      val first = orders.join(branch("d").as("d"), expr(Hourly)).selectExpr("o.id", "d.t", "o.v")
      val both = first.union(branch("e")).as("d")
      val joined = both.join(branch("r").as("r"), expr(Returned), "left_outer").selectExpr("d.v", "r.v as w")
      joined.union(branch("s").selectExpr("v", "v as w"))
    }
    running(job(query)) { job =>
      val streams = Seq("o", "p", "d", "e", "r", "s")
      def all(id: String, time: String, v: Int) = streams.map(_ -> row(id, time, v))
      job.feed(all("begin", "09:00", 0): _*)
      job.feed("p" -> row("a", "10:00", 1), "d" -> row("a", "10:10", 2), "e" -> row("b", "10:15", 3))
      assert(job.feed("r" -> row("a", "10:20", 4), "s" -> row("s", "10:00", 5)) == Seq("1 4", "5 5"))
      // Returns hold back the rows without a match until they continue.
      val early = job.feed(all("end", "15:00", 9).filterNot(_._1 == "r"): _*)
      assert(withoutClosingRows(early, "9").isEmpty)
      // W(r) = 15:00 evicts deliveries before 14:30.
      assert(job.feed("r" -> row("end", "15:00", 9)).contains("3 -"))
    }
  }

  /** `make test` has each type with one of the settings, by turns. */
  for {
    (how, number) <- Seq("inner", "left_outer", "left_semi", "left_anti").zipWithIndex
    before <- SparkTest.part(Seq(true, false), every = 2, from = number)
  }
    test(s"$how of a union below withWatermark emits the right rows, watermarkBeforeFilter=$before") {
      // In a batch without rows of p, Spark infers v > 100 for the whole union.
      val query: Streams => DataFrame = streams => {
        val union =
          streams.raw("o").where("v > 100").union(streams.raw("p")).withWatermark("t", "30 minutes").as("o")
        val joined = union.join(
          streams.marked("d", "30 minutes"),
          expr("o.v = d.v AND d.t BETWEEN o.t - INTERVAL 30 MINUTES AND o.t + INTERVAL 30 MINUTES"),
          how
        )
        val sides = if (Set("left_semi", "left_anti")(how)) Seq("o") else Seq("o", "d")
        joined.select(values(sides: _*): _*)
      }
      withConf("spark.streamjoin.watermarkBeforeFilter" -> before.toString) {
        running(job(query)) { job =>
          job.feed(o("a", "10:00", 200), "p" -> row("a", "10:00", 1), d("a", "10:00", 1))
          job.feed(o("a", "10:05", 201), d("a", "10:05", 7), d("a", "10:05", 201))
          job.feed("p" -> row("a", "10:06", 7))
          Seq("20:00", "21:00")
            .foreach(end => job.feed(o("q", end, 999), "p" -> row("q", end, 999), d("q", end, 0)))
          val expected = how match {
            case "inner" => Seq("1 1", "201 201", "7 7")
            case "left_outer" => Seq("1 1", "200 -", "201 201", "7 7")
            case "left_semi" => Seq("1", "201", "7")
            case "left_anti" => Seq("200")
          }
          assert(withoutClosingRows(job.seen.flatMap(_.rows), "999").sorted == expected)
        }
      }
    }

  for (how <- SparkTest.part(Seq("left_semi", "left_anti"), every = 2))
    test(s"$how of a union, an aggregation or a join is not pushed below it") {
      // Spark would push it down: into both branches, or below if the other side is small in a
      // batch.
      val query: Streams => DataFrame = streams => {
        def branch(name: String) = streams.raw(name).withWatermark("t", "0 seconds")
        def hours(rows: DataFrame) = rows.withColumn("hour", window(col("t"), "1 hour"))
        val orders = branch("o").union(branch("p")).as("o")
        val some = orders.join(branch("d").as("d"), expr(Hourly), how)
        val perHour = hours(some).groupBy("hour", "id").agg(count("*").as("n")).as("n")
        val right = hours(branch("r")).select("id", "hour").as("r")
        perHour
          .join(right, expr("n.id = r.id AND n.hour = r.hour"), "left_semi")
          .selectExpr("n.id", "n.hour.start", "n")
      }
      val met = if (how == "left_semi") "a" else "b"
      running(job(query)) { job =>
        def all(id: String, time: String) = Seq("o", "p", "d", "r").map(_ -> row(id, time))
        job.feed(o("a", "10:00"), "p" -> row("b", "10:00"), d("a", "10:10"), "r" -> row(met, "10:30"))
        // Batches in which some streams have no rows.
        job.feed(o("a", "10:20"))
        job.feed(o("x", "10:40"), "p" -> row("x", "10:40"), d("a", "10:25"))
        assert(job.joins.map(_.join.joinType.name) == Seq("left_semi", how))
        Seq("12:00", "14:00", "16:00", "18:00").foreach(time => job.feed(all(s"end $time", time): _*))
        val once = s"$met 10:00 ${if (met == "a") 2 else 1}"
        assert(withoutClosingRows(job.seen.flatMap(_.rows), "end") == Seq(once))
        assert(job.dropped == 0)
        assert(job.progress.stateOperators.map(_.numRowsTotal).max <= 4, "expired rows must leave the state")
      }
    }

  test("a filter above a left semi join is pushed to the streams below it") {
    val query: Streams => DataFrame = streams =>
      hourly("left_outer")(streams)
        .join(
          streams.marked("r"),
          expr("o.id = r.id AND r.t BETWEEN o.t AND o.t + INTERVAL 1 HOUR"),
          "left_semi"
        )
        .where("o.v > 1 AND d.v > 1")
        .select("o.v", "d.v")
    running(job(query)) { job =>
      job.feed(
        o("a", "10:00", 1),
        o("b", "10:00", 2),
        d("b", "10:10", 3),
        d("b", "10:11", 1),
        "r" -> row("b", "10:20")
      )
      assert(job.seen.flatMap(_.rows) == Seq("2 3"))
      val lower = job.joins.minBy(_.join.ordinal)
      assert(lower.join.joinType.name == "inner", "the filter drops orders without a delivery")
      val below = job.progress.stateOperators.find(_.customMetrics.get("join") == 1L).get
      assert(below.numRowsTotal <= 2, "rows that the filter drops are not buffered")
    }
  }

  test("a join above one of Spark's is left to Spark, as nothing says how old its rows may be") {
    withConf("spark.streamjoin.unbounded" -> "spark") {
      val query: Streams => DataFrame = streams =>
        streams
          .marked("o")
          .join(streams.marked("d"), expr("o.id = d.id AND o.t >= d.t - INTERVAL 1 HOUR"))
          .select("o.id", "o.t")
          .as("o")
          .join(streams.marked("r"), expr("o.id = r.id AND r.t BETWEEN o.t AND o.t + INTERVAL 1 HOUR"))
          .select("o.id", "r.v")
      running(job(query)) { job =>
        def all(id: String, time: String) = Seq("o", "d", "r").map(_ -> row(id, time))
        job.feed(o("x", "10:30") +: all("q", "11:00"): _*)
        job.feed(all("q", "11:00"): _*)
        assert(job.feed(d("x", "11:10"), "r" -> row("x", "11:05", 7)).contains("x 7"))
        assert(job.joins.isEmpty)
      }
    }
  }

  test("projections, aliases, filters, a static table and deduplication can stand between joins") {
    val table = spark.sql("VALUES ('a', 100), ('b', 200) AS names(id, w)")
    val query: Streams => DataFrame = streams =>
      hourly("left_outer")(streams)
        .selectExpr("o.id AS key", "o.t AS ordered", "d.t + INTERVAL 5 MINUTES AS arrived", "o.v AS n")
        .where("n > 0")
        .join(table.as("names"), expr("key = names.id"))
        .dropDuplicates("key", "ordered")
        .join(
          streams.marked("r"),
          expr("key = r.id AND r.t BETWEEN arrived AND arrived + INTERVAL 30 MINUTES"),
          "left_outer"
        )
        .selectExpr("n", "w", "r.v")
    running(job(query)) { job =>
      job.feed(o("a", "10:00", 1), d("a", "10:10", 2), o("b", "10:00", 3), o("c", "10:00", -1))
      assert(job.feed(o("a", "10:00", 1), r("a", "10:15", 4)) == Seq("1 100 4"))
      // W(d) = 14:00 evicts orders before 13:00.
      assert(job.feed(o("x", "14:00"), d("x", "14:00"), r("x", "14:00")) == Seq("3 200 -"))
    }
  }

  test("bounds() lists every join of a chain, and where a derived bound comes from") {
    val rows = StreamJoin
      .bounds(chain("left_outer", "inner")(newStreams()))
      .select("join", "side", "input", "column", "bound", "keeps", "origin")
      .collect()
      .map(text(_: Row))
      .toSeq
    assert(
      rows == Seq(
        "1 left o t d.t <= o.t + 1 hour o kept 1 hour this join",
        "1 right d t o.t <= d.t d kept 0 seconds this join",
        "2 left o with d t r.t <= d.t + 30 minutes o with d kept 30 minutes this join",
        "2 right r t d.t <= r.t r kept 0 seconds this join",
        "2 left o with d t d.t <= o.t + 1 hour o.t is held back with d.t join 1"
      )
    )
  }

  test("the plan of a chain says which join gives a column its watermark") {
    running(timedJob(chain())) { job =>
      job.feed(o("a", "10:00"), d("a", "10:00"), r("a", "10:00"))
      val text = job.plan.toString
      assert(text.contains("d.t <= o.t + 1 hour by join 1: o.t is held back with d.t"))
    }
  }
}
