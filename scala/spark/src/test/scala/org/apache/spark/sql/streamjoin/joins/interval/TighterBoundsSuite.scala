package org.apache.spark.sql.streamjoin.joins.interval

import org.scalatest.Assertion
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.functions.{col, count, expr, lit, window}
import org.apache.spark.sql.streamjoin.JoinTest
import org.apache.spark.sql.{DataFrame, Row}

import streamjoin.core.Side

/**
 * Joins in which a constant bound stands next to a value that rows carry: the tighter one decides
 * when a row leaves, unless the checkpoint began with the constant alone.
 */
class TighterBoundsSuite extends AnyFunSuite with JoinTest {
  import CarriedBoundStories.{Columns, delivery, order}
  import JoinTest._

  private val Both = s"$Hourly AND d.t <= o.until"

  private def query(condition: String = Both): Streams => DataFrame = streams =>
    streams
      .marked("o")
      .join(streams.marked("d"), expr(condition), "left_outer")
      .selectExpr("o.id AS a", "d.id AS b")

  private def carries(condition: String = Both)(body: Job => Assertion): Assertion =
    running(job(query(condition), Columns))(body)

  private def isCarried(job: Job): Boolean = job.plan.toString.contains("o kept until ")

  test("a row leaves by its value if that is the tighter one, else by the constant") {
    carries() { job =>
      val rows =
        Seq(
          order("a", "10:00", "10:05"),
          order("far", "10:00", "9999-12-31T00:00"),
          order("n", "10:00", null)
        )
      assert(job.feed(rows: _*) == Seq("n -"), "no value fails the query, and a null matches nothing")
      assert(job.feed(delivery("a", "10:05")) == Seq("a a"))
      assert(job.state._1 == 2)
      assert(job.feed(delivery("a", "10:05:00.001")) == Seq())
      assert(job.state._1 == 1, "a has left by its value")
      assert(job.feed(delivery("far", "11:00")) == Seq("far far"))
      assert(job.feed(delivery("x", "11:00:00.001")) == Seq())
      assert(job.state._1 == 0, "the other has left by the constant")
    }
  }

  test("a value that cannot be computed is kept by the constant") {
    carries(s"$Hourly AND d.t <= timestampadd(MINUTE, CAST(10 / o.v AS INT), o.t)") { job =>
      job.feed(order("a", "10:00", null, v = 0), order("b", "10:00", null, v = 2))
      assert(job.feed(delivery("b", "10:05"), delivery("x", "10:06")) == Seq("b b"))
      assert(job.state._1 == 1)
      assert(job.feed(delivery("x", "11:01")) == Seq("a -"))
      assert(job.state._1 == 0)
    }
  }

  private lazy val streams = newStreams(Columns)

  private def planned(condition: String): IntervalJoinSpec =
    joins(streams.marked("o").join(streams.marked("d"), expr(condition))).head.plan

  test("the longest lifetime is the constant, whatever the settings are") {
    for (setting <- Seq("fail", "cut", "keep"); (than, more) <- Seq("<" -> 1L, "<=" -> 0L))
      withConf("spark.streamjoin.beyondMaxLifetime" -> setting) {
        val one = planned(s"$Hourly AND d.t + INTERVAL 1 MINUTE $than o.until").carried.head
        assert(one.max.micros.contains(61 * 60000000L + more) && one.max.isBound)
        assert(one.cut(_ => fail("the condition has the constant")).isEmpty)
      }
    val both = planned(s"$Both AND d.t >= o.t - INTERVAL 1 MINUTE AND o.t <= d.until")
    assert(both.carried.map(_.side) == Side.both)
    assert(planned(Hourly).carried.isEmpty, "an event time plus a constant is no value")
    assert(planned(s"$Hourly AND d.t <= o.t + INTERVAL 2 HOURS").carried.isEmpty)
  }

  test("several event times are not ambiguous, as the constant says which one counts") {
    val pairs = streams.marked("o").join(streams.marked("d"), expr(Hourly))
    val above = pairs
      .selectExpr("o.id", "o.t", "d.t AS s", "o.until")
      .as("f")
      .join(
        streams.marked("e"),
        expr(
          "f.id = e.id AND e.t >= f.t AND e.t >= f.s AND e.t <= f.until AND e.t <= f.s + INTERVAL 1 HOUR"
        )
      )
    assert(joins(above).map(_.plan.carried.size) == Seq(0, 1))
  }

  testLong("a constant on the time of another stream decides alone") {
    val pairs = streams.marked("o").join(streams.marked("d"), expr(Hourly))
    def above(driving: String) = pairs
      .selectExpr("o.id", "o.t", "d.t AS s")
      .as("f")
      .join(
        streams.marked("e"),
        expr(s"f.id = e.id AND e.t BETWEEN f.t AND f.t + INTERVAL 1 HOUR AND f.$driving <= e.until")
      )
    assert(joins(above("s")).map(_.plan.carried.size) == Seq(0, 0))
    assert(joins(above("t")).map(_.plan.carried.size) == Seq(0, 1))
  }

  test("sj.bounds, EXPLAIN and sj.state say both") {
    val words =
      Seq("d.t <= o.t + 1 hour: o kept 1 hour", "d.t <= o.until: o kept until o.until, at most 1 hour")
    val bounds = BoundsOfQuery
      .rows(query()(newStreams(Columns)).queryExecution.analyzed, spark)
      .map(row => s"${row.getString(4)}: ${row.getString(5)}")
    assert(words.forall(bounds.contains), bounds)
    running(job(query(), Columns)) { job =>
      job.feed(order("a", "10:00", "10:05"), order("b", "10:00", "9999-12-31T00:00"))
      words.foreach(text => assert(job.plan.toString.contains(text), job.plan))
      assert(!job.plan.toString.contains("carried_value"), job.plan)
      job.stop()
      val rows = spark.read
        .format("streamjoin")
        .option("checkpoint", job.checkpoint)
        .option("operator", 1)
        .option("side", "left")
        .load()
        .selectExpr("left.id", "leaves_by", "leaves_after")
        .orderBy("id")
      assert(rows.collect().map(text(_: Row)).toSeq == Seq("a d.t 10:05", "b d.t 11:00"))
    }
  }

  testLong("a window above closes once its rows have left, before the constant lets it") {
    val windows = (streams: Streams) =>
      streams
        .marked("o")
        .join(streams.marked("d"), expr(Both))
        .groupBy(window(col("o.t"), "10 minutes").as("w"))
        .agg(count(lit(1)).as("n"))
        .selectExpr("w.start", "n")
    running(job(windows, Columns)) { job =>
      job.feed(order("a", "10:00", "10:05"), delivery("a", "10:03"))
      for (time <- Seq("10:30", "10:31")) job.feed(order("x", time, time), delivery("x", time))
      assert(job.seen.flatMap(_.rows) == Seq("10:00 1"))
    }
  }

  // Checkpoints.

  private def evolution(of: Job, condition: String): Seq[String] =
    streamjoin.StreamJoin
      .evolution(query(condition)(newStreams(Columns)), of.checkpoint)
      .collect()
      .map(text(_: Row))
      .toSeq

  test("a checkpoint that began with the constant alone keeps its layout and continues") {
    // Its rows have the value already.
    val old = s"$Hourly AND coalesce(o.until, d.t) >= o.t"
    val changed = s"$old AND d.t <= o.until"
    val first = job(query(old), Columns)
    running(first)(job => job.feed(order("a", "10:00", "10:05"), order("b", "10:00", "10:40")): Unit)
    val second = first.successor(query(changed))
    withConf("spark.streamjoin.evolve" -> "exact") {
      running(second) { job =>
        assert(job.feed(delivery("b", "10:30")) == Seq("b b"))
        assert(!isCarried(job), job.plan)
        assert(job.feed(delivery("x", "10:31")) == Seq())
        assert(job.state._1 == 2, "the constant decides alone")
      }
    }
    assert(evolution(second, changed).isEmpty)
    val third = second.successor(query(changed))
    running(third) { job =>
      assert(job.feed(delivery("a", "10:50")) == Seq())
      assert(!isCarried(job), job.plan)
      job.stop()
      job.start()
      assert(job.feed(delivery("x", "11:01")) == Seq("a -"))
      assert(job.state._1 == 0)
    }
  }

  testLong("a checkpoint that began with both continues with both") {
    val first = job(query(), Columns)
    running(first)(job => job.feed(order("a", "10:00", "10:05"), order("b", "10:00", "10:40")): Unit)
    assert(evolution(first, Both).isEmpty)
    running(first.successor(query())) { job =>
      assert(job.feed(delivery("b", "10:30"), delivery("x", "10:31")) == Seq("a -", "b b"))
      assert(isCarried(job), job.plan)
      job.feed(delivery("x", "10:32"))
      assert(job.state._1 == 1)
    }
  }
}
