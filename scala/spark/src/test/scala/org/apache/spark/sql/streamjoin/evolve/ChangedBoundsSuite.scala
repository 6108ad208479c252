package org.apache.spark.sql.streamjoin.evolve

import org.scalatest.Assertion
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.functions.{count, expr, window}
import org.apache.spark.sql.streaming.StreamingQueryException
import org.apache.spark.sql.streamjoin.JoinTest.{Job, Streams, at}
import org.apache.spark.sql.streamjoin.{JoinTest, SparkTest}
import org.apache.spark.sql.{AnalysisException, DataFrame, Row}

/**
 * The rows of a join leave by other times than before: those of another column, or times that they
 * carry. Random cases are in [[ChangeOracleSuite]].
 */
class ChangedBoundsSuite extends AnyFunSuite with JoinTest {

  override protected def settings: Map[String, String] = Map(
    "spark.streamjoin.evolve" -> "allow",
    "spark.sql.streaming.noDataMicroBatches.enabled" -> "false"
  )

  private val Columns = "id STRING, t TIMESTAMP, until TIMESTAMP, v INT"
  private val Evolve = "spark.streamjoin.evolve"
  private val MaxLifetime = "spark.streamjoin.maxLifetime"
  private val BeyondMaxLifetime = "spark.streamjoin.beyondMaxLifetime"

  private val hourly = "d.t <= o.t + INTERVAL 1 HOUR"
  private val carried = "d.t <= o.until"
  private val byS = "d.t <= o.s + INTERVAL 1 HOUR"

  /** Orders with another event time, that of their hour. */
  private def marked(streams: Streams): DataFrame =
    streams.marked("o").selectExpr("*", "date_trunc('HOUR', t) AS s").as("o")

  /** Keeps all columns that another bound may need. */
  private def query(bound: String)(streams: Streams): DataFrame =
    marked(streams)
      .join(streams.marked("d"), expr(s"o.id = d.id AND d.t >= o.t AND $bound"), "left_outer")
      .selectExpr("IF(year(least(o.until, o.s)) < 2000, -1, o.v) AS a", "d.v AS b")

  private def time(text: String) = if (text == null) null else at(text)

  private def o(id: String, v: Int, t: String, until: String) = "o" -> Row(id, time(t), time(until), v)

  private def d(id: String, v: Int, t: String) = "d" -> Row(id, time(t), null, v)

  /** A stopped query whose watermark of the deliveries is 10:30. */
  private def old(bound: String)(rows: (String, Row)*): Job = {
    val made = job(query(bound), Columns)
    running(made) { job =>
      job.feed(rows: _*)
      (0 until 2).foreach(_ => job.feed(d("-", 0, "10:30")))
    }
    made
  }

  /** Continues with another bound; returns the job, which has ended. */
  private def changed(before: Job, bound: String, evolve: String = "allow")(body: Job => Any): Job = {
    val next = before.successor(query(bound))
    withConf(Evolve -> evolve)(running(next)(body))
    next
  }

  /** The cause of a failure at the start or in the first batch. */
  private def failure(before: Job, bound: String): AnalysisException = {
    val error = intercept[Exception](changed(before, bound)(_.feed(d("-", 0, "10:31"))))
    Iterator
      .iterate[Throwable](error)(_.getCause)
      .takeWhile(_ != null)
      .collectFirst { case known: AnalysisException => known }
      .getOrElse(fail(error))
  }

  /** What changes, and what that means for state and results. */
  private def shown(before: Job, bound: String): Seq[Seq[String]] = streamjoin.StreamJoin
    .evolution(query(bound)(newStreams(Columns)), before.checkpoint)
    .selectExpr("what", "was", "is", "state", "results")
    .collect()
    .map(_.toSeq.map(String.valueOf))
    .toSeq

  private def completeFrom(job: Job, time: String): Assertion =
    assert(job.metric("completeFromMs") == at(time).getTime)

  private val orders: Seq[(String, Row)] = Seq(
    o("a", 1, "10:00", "12:00"),
    o("b", 2, "10:00", null),
    o("c", 3, "10:00", "10:20"),
    o("n", 4, "10:00", "12:00")
  )

  test("rows leave by a time that they carry, and did by their event time") {
    val before = old(hourly)(orders: _*)
    val from = "complete from 2024-07-01T09:30:00Z"
    val wanted = Seq(
      Seq("bound", "right.t <= left.t + 1 hour", "right.t <= left.t + 30 days", "rewritten", from),
      Seq("bound", "none", "right.t <= left.until, at most 30 days after left.t", "rewritten", "exact")
    )
    assert(shown(before, carried) == wanted)
    changed(before, carried) { job =>
      // One has no such time, another one had it before the watermark.
      assert(job.feed(d("a", 5, "11:30"), d("c", 6, "10:30")) == Seq("1 5", "2 -", "3 -"))
      completeFrom(job, "2024-07-01T09:30")
      assert(job.state._1 == 2)
      job.redoLast()
      assert(job.seen.last.rows.sorted == Seq("1 5", "2 -", "3 -"))
      assert(job.feed(d("n", 7, "12:00")) == Seq("4 7"))
      job.feed(d("-", 0, "12:01"))
      assert(job.feed(d("-", 0, "12:02")) == Seq())
      assert(job.state._1 == 0)
    }
  }

  test("rows leave by their event time, and did by a time that they carry") {
    val before = old(carried)(orders.filterNot(_._2.getInt(3) == 3): _*)
    running(before)(job => assert(job.feed(o("c", 3, "10:10", "10:20")) == Seq("3 -")))
    assert(
      shown(before, hourly).map(_.drop(3)) == Seq(
        Seq("rewritten", "exact"),
        Seq("rewritten", "complete from 2024-06-01T11:10:00.001Z")
      )
    )
    assert(
      shown(before, hourly).last.slice(1, 3) ==
        Seq("right.t <= left.until, at most 30 days after left.t", "none")
    )
    changed(before, hourly) { job =>
      // An order that has left, one that has not, and one that was never kept.
      assert(job.feed(d("c", 5, "11:00"), d("a", 6, "11:00"), d("b", 7, "10:50")) == Seq("1 6"))
      completeFrom(job, "11:10:00.001")
      job.feed(o("e", 8, "11:00", null))
      assert(job.feed(d("e", 9, "11:20")) == Seq("8 9"))
      assert(job.feed(d("-", 0, "11:30")) == Seq("4 -"))
      assert(job.metric("completeFromMs") == -1)
    }
  }

  private val later = Seq(o("e", 5, "10:50", null), o("f", 6, "11:10", null))

  testLong("rows leave by another event-time column") {
    val before = old(hourly)(orders ++ later: _*)
    val from = "complete from 2024-06-01T12:10:00.001Z"
    assert(
      shown(before, byS) == Seq(
        Seq("bound", "right.t <= left.t + 1 hour", "none", "rewritten", from),
        Seq("bound", "none", "right.t <= left.s + 1 hour", "rewritten", "exact")
      )
    )
    changed(before, byS) { job =>
      // By the hour, an order at 10:50 has until 11:00.
      assert(job.feed(d("e", 7, "11:00"), d("a", 8, "11:00"), d("f", 9, "11:30")) == Seq("1 8", "5 7", "6 9"))
      completeFrom(job, "12:10:00.001")
      assert(job.feed(d("e", 7, "11:40")) == Seq("2 -", "3 -", "4 -"))
      assert(job.state._1 == 1)
      job.feed(d("-", 0, "12:10"), o("g", 10, "12:00", null))
      assert(job.metric("completeFromMs") != -1)
      job.feed(d("-", 0, "13:00"))
      job.feed(d("-", 0, "13:01"))
      assert(job.metric("completeFromMs") == -1)
    }
  }

  testLong("one more bound is exact, whatever its column is") {
    val before = old(hourly)(orders ++ later: _*)
    assert(shown(before, s"$hourly AND $byS").map(_.drop(3)) == Seq(Seq("rewritten", "exact")))
    changed(before, s"$hourly AND $byS", "exact") { job =>
      assert(job.feed(d("e", 7, "11:00"), d("e", 8, "11:01"), d("a", 9, "11:00")) == Seq("1 9", "5 7"))
      assert(job.metric("completeFromMs") == -1)
    }
  }

  test("the condition needs a time that was not kept") {
    def without(bound: String)(streams: Streams) = marked(streams)
      .join(streams.marked("d"), expr(s"o.id = d.id AND d.t >= o.t AND $bound"), "left_outer")
      .selectExpr("o.v AS a", "d.v AS b")
    val before = job(without(hourly), Columns)
    running(before)(_.feed(orders: _*))
    val message = failure(before, carried).getMessage
    assert(message.contains("no until, which the condition or a filter needs: use columns"), message)
    running(before)(_.feed(d("-", 0, "10:31"))): Unit
  }

  testLong("the bound of a value that rows carry becomes wider and narrower") {
    val before = old(carried)(orders: _*)
    val wider = "d.t - INTERVAL 10 MINUTES <= o.until"
    val limit = "at most 30 days after left.t"
    val (was, is) = (s"right.t <= left.until, $limit", s"right.t <= left.until + 10 minutes, $limit")
    assert(
      shown(before, wider) == Seq(Seq("bound", was, is, "unchanged", "complete from 2024-06-01T10:40:00Z"))
    )
    val next = changed(before, wider) { job =>
      // The order has left at 10:20.
      assert(job.feed(d("c", 5, "10:30"), d("a", 6, "12:10")) == Seq("1 6"))
      completeFrom(job, "10:40")
      job.feed(o("e", 7, "12:00", "12:05"))
      assert(job.feed(d("e", 8, "12:15")) == Seq("7 8"))
    }
    val another = "d.t <= o.until + INTERVAL 10 MINUTES"
    assert(shown(next, another).map(_(3)) == Seq("rewritten"))
  }

  // How long such a row may stay.

  private val far = o("f", 9, "10:00", "2024-07-20T00:00")

  test("a longer lifetime, and none, is exact if no value was cut") {
    val before = old(carried)(orders: _*)
    for (
      (setting, text) <- Seq(
        (MaxLifetime -> "90d") -> "right.t <= left.until, at most 90 days after left.t",
        (BeyondMaxLifetime -> "keep") -> "right.t <= left.until, without a limit"
      )
    ) withConf(setting) {
      assert(shown(before, carried).map(row => (row(2), row(4))) == Seq((text, "exact")))
    }
    withConf(MaxLifetime -> "90d")(changed(before, carried, "exact") { job =>
      assert(job.feed(far, d("f", 5, "10:40"), d("a", 6, "11:00")) == Seq("1 6", "9 5"))
    })
  }

  testLong("a shorter lifetime fails if a row in state exceeds it, or cuts it") {
    val before = withConf(MaxLifetime -> "90d")(old(carried)(orders :+ far: _*))
    val failing = changed(before, carried, "exact") { job =>
      val error = intercept[StreamingQueryException](job.feed(d("a", 5, "10:40")))
      assert(SparkTest.errorClass(error).contains("STREAMJOIN_BEYOND_MAX_LIFETIME"))
    }
    // The old query continues with the batch that has failed.
    val again = withConf(MaxLifetime -> "90d") {
      changed(failing, carried, "reject")(job => assert(job.settle() == Seq("1 5")))
    }
    withConf(MaxLifetime -> "40m", BeyondMaxLifetime -> "cut")(changed(again, carried, "exact") { job =>
      assert(job.feed(d("f", 6, "10:40"), d("n", 7, "10:41")) == Seq("9 6"))
      assert(job.feed(d("-", 0, "10:50")) == Seq("4 -"))
      assert(job.metric("completeFromMs") == -1)
    })
  }

  testLong("a longer lifetime after a cut") {
    withConf(BeyondMaxLifetime -> "cut") {
      val before = withConf(MaxLifetime -> "20m")(old(carried)(orders: _*))
      withConf(MaxLifetime -> "2h") {
        val (was, is) = (
          "right.t <= left.until, cut 20 minutes after left.t",
          "right.t <= left.until, cut 2 hours after left.t"
        )
        assert(
          shown(before, carried) == Seq(
            Seq("bound", was, is, "rewritten", "complete from 2024-06-01T12:00:00.001Z")
          )
        )
        changed(before, carried)(job => assert(job.feed(d("a", 5, "11:00")) == Seq()))
      }
    }
  }

  test("without a limit, it would never be known when results are complete") {
    val before = old(hourly)(orders: _*)
    withConf(BeyondMaxLifetime -> "keep") {
      assert(failure(before, carried).getMessage.contains(s"set $BeyondMaxLifetime to fail or cut"))
      running(job(query(carried), Columns))(job => assert(job.feed(far) == Seq())): Unit
    }
    changed(before, carried)(_.feed(d("-", 0, "10:31"))): Unit
  }

  // Several changes in a row.

  private val twoHours = "d.t <= o.t + INTERVAL 2 HOURS"

  test("rows that are missing since an earlier change are part of what a later one misses") {
    val before = old(hourly)(orders ++ later: _*)
    val wider = changed(before, twoHours) { job =>
      job.feed(d("-", 0, "10:40"))
      completeFrom(job, "11:30")
    }
    // Nothing is lost by an attempt that fails.
    val failing = wider.successor(query(byS))
    failing.sink = _ => throw new IllegalStateException("no room")
    running(failing)(job => intercept[StreamingQueryException](job.feed(d("-", 0, "10:45"))))
    val again = failing.successor(query(twoHours))
    running(again) { job =>
      job.settle()
      completeFrom(job, "11:30")
    }
    changed(again, byS) { job =>
      job.feed(d("-", 0, "10:50"))
      completeFrom(job, "12:10:00.001")
      job.feed(d("-", 0, "13:00"))
      job.feed(d("-", 0, "13:01"))
      assert(job.metric("completeFromMs") == -1)
    }
  }

  testLong("a wider bound, while rows of any time may be missing") {
    val byOther = changed(old(hourly)(orders ++ later: _*), byS) { job =>
      job.feed(d("-", 0, "10:40"))
      completeFrom(job, "12:10:00.001")
    }
    changed(byOther, "d.t <= o.s + INTERVAL 2 HOURS") { job =>
      job.feed(d("-", 0, "10:50"))
      completeFrom(job, "13:10:00.001")
    }
  }

  // Chains.

  /** The upper join is within an hour of a time of the lower one. */
  private def chain(time: String)(streams: Streams): DataFrame = {
    val below = marked(streams)
      .join(streams.marked("d"), expr(s"o.id = d.id AND d.t >= o.t AND $hourly"))
      .selectExpr("o.id AS id", "o.t AS ot", "d.t AS dt", "o.v AS a", "d.v AS b")
      .as("f")
    below
      .join(
        streams.marked("e"),
        expr(s"f.id = e.id AND e.t BETWEEN $time AND $time + INTERVAL 1 HOUR"),
        "left_outer"
      )
      .selectExpr("IF(year(least(ot, dt)) < 2000, -1, a) AS a", "b", "e.v AS c")
  }

  testLong("the upper join of a chain goes by another time of the lower one") {
    def e(v: Int, t: String) = "e" -> d("a", v, t)._2
    val before = job(chain("f.ot"), Columns)
    running(before) { job =>
      job.feed(o("a", 1, "10:00", null), d("a", 2, "10:50"), e(3, "10:20"))
      job.feed(d("-", 0, "10:51")): Unit
    }
    assert(before.seen.flatMap(_.rows) == Seq("1 2 3"))
    val next = before.successor(chain("f.dt"))
    running(next) { job =>
      // After the end of the old bound, and before the begin of the new one.
      assert(job.feed(e(4, "11:30"), e(5, "10:30")) == Seq("1 2 4"))
      job.feed(o("a", 6, "11:00", null), d("a", 7, "11:40"))
      assert(job.feed(e(8, "12:40")) == Seq("6 7 8"))
      assert(job.dropped == 0)
    }
  }

  /** How many deliveries each hour of orders has; orders wait for a row of `e` by the delivery. */
  private def counted(minutes: Int)(streams: Streams): DataFrame = {
    val below = streams
      .marked("o")
      .join(
        streams.marked("d"),
        expr(s"o.id = d.id AND d.t BETWEEN o.t AND o.t + INTERVAL $minutes MINUTES")
      )
      .selectExpr("o.id AS id", "o.t AS ot", "d.t AS dt")
      .as("f")
    below
      .join(
        streams.marked("e"),
        expr("f.id = e.id AND e.t BETWEEN f.dt AND f.dt + INTERVAL 1 HOUR"),
        "left_outer"
      )
      .groupBy(window(expr("ot"), "1 hour").as("w"))
      .agg(count("*").as("n"))
      .selectExpr("w.start AS a", "n AS b")
  }

  testLong("rows that an upper join has kept from a wider lower one are not late above") {
    val before = job(counted(120), Columns)
    def all(time: String) = Seq("o", "d", "e").map(_ -> d(s"end of $time", 0, time)._2)
    running(before) { job =>
      job.feed(o("a", 1, "10:00", null), d("a", 2, "11:50"))
      job.feed(all("12:00"): _*)
      job.feed(all("12:00"): _*): Unit
    }
    val next = before.successor(counted(30))
    running(next) { job =>
      for (time <- Seq("12:10", "12:40", "12:45", "13:30", "14:30", "16:30", "17:30")) job.feed(all(time): _*)
      assert(job.dropped == 0)
      assert((before.seen ++ job.seen).flatMap(_.rows).head == "10:00 1")
    }
  }
}
