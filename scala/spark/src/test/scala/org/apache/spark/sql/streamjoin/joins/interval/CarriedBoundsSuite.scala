package org.apache.spark.sql.streamjoin.joins.interval

import org.scalatest.Assertion
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.functions.expr
import org.apache.spark.sql.streaming.StreamingQueryException
import org.apache.spark.sql.streamjoin.{JoinTest, SparkTest}
import org.apache.spark.sql.{DataFrame, Row}

import streamjoin.core.JoinType

/**
 * Joins in which each row of a side carries the time at which it leaves. Random traces without late
 * rows are compared with Spark's batch join, and with the same query when no row ever leaves.
 */
class CarriedBoundsSuite extends AnyFunSuite with JoinTest {
  import CarriedBoundStories._
  import JoinTest._

  private val all = for {
    seed <- 1 to SparkTest.seedsOf(Conditions.size * JoinType.all.size)
    (condition, at) <- Conditions.zipWithIndex
    (joinType, number) <- JoinType.all.zipWithIndex
  } yield new Story(seed.toLong, condition, joinType, Seq("fail", "cut", "keep")((seed + at + number) % 3))

  testAll[Story](SparkTest.part(all, every = 29), _.toString)(compare)

  private def compare(story: Story): Assertion = {
    val session = spark.newSession()
    story.settings.foreach { case (key, value) => session.conf.set(key, value) }
    if (story.onRocksDb)
      session.conf.set(
        "spark.sql.streaming.stateStore.providerClass",
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
      )
    val job = new Job(session, newFolder(), "append", Columns, story.query(_))
    running(job) { job =>
      story.batches.zipWithIndex.foreach { case (rows, number) =>
        job.feed(rows: _*)
        if (story.restarts(number)) job.restart()
      }
      (0 until 2).foreach(_ => job.feed(story.end: _*))
      val seen = withoutClosingRows(job.seen.flatMap(_.rows), End.toString).sorted
      assert(seen == expected(story), s"$story")
      assert(job.dropped == 0, "no row may be late")
      val (left, right) = job.state
      assert(left + right <= 4 + story.staying, "expired rows must leave the state")
    }
  }

  private def expected(story: Story): Seq[String] =
    story
      .joined(batchOf(spark, story.batches.flatten), story.meaning)
      .collect()
      .filterNot(story.stays)
      .map(text(_: Row))
      .sorted
      .toSeq

  // One at a time, as the hook is for all queries.
  private val controlled = for {
    (condition, at) <- Conditions.zipWithIndex
    beyond <- Seq("fail", "cut", "keep")
      .drop(if (SparkTest.isLong) 0 else at % 3)
      .take(if (SparkTest.isLong) 3 else 1)
  } yield condition -> beyond

  for ((condition, beyond) <- SparkTest.part(controlled, every = 28, from = 1))
    test(s"the same rows as without eviction, in less state, $beyond: $condition") {
      val story = Iterator
        .from(100)
        .map(seed => new Story(seed.toLong, condition, JoinType.Inner, beyond))
        .find(expected(_).size > 5)
        .get
      val ((rows, kept), (control, allKept)) = withConf(story.settings.toSeq: _*) {
        (run(story, keepsAll = false), run(story, keepsAll = true))
      }
      assert(rows == control)
      assert(withoutClosingRows(rows, End.toString) == expected(story))
      assert(allKept._1 > kept._1 && allKept._2 > kept._2, "rows of both sides leave")
    }

  private def run(story: Story, keepsAll: Boolean): (Seq[String], (Long, Long)) = {
    IntervalJoinExec.keepsAll = keepsAll
    try
      running(job(story.query, Columns)) { job =>
        story.batches.foreach(rows => job.feed(rows: _*))
        job.feed(story.end: _*)
        (job.seen.flatMap(_.rows).sorted.toSeq, job.state)
      }
    finally IntervalJoinExec.keepsAll = false
  }

  private def query(condition: String, how: String = "inner"): Streams => DataFrame = streams =>
    streams
      .marked("o")
      .join(streams.marked("d"), expr(condition), how)
      .selectExpr((if (how == "left_outer") Seq("o.id AS a", "d.id AS b") else Seq("o.id AS a")): _*)

  private def carries(condition: String, how: String = "inner")(body: Job => Assertion): Assertion =
    running(job(query(condition, how), Columns))(body)

  private def failure(body: => Any): Throwable = intercept[StreamingQueryException](body)

  test("a row leaves once the watermark has passed the time that it carries, and a null matches nothing") {
    carries(Simple, "left_outer") { job =>
      assert(job.feed(order("a", "10:00", "10:05"), order("b", "10:00", "12:00")) == Seq())
      assert(job.feed(order("n", "10:00", null), delivery("n", "10:00")) == Seq("n -"))
      assert(job.feed(delivery("a", "10:05"), delivery("x", "10:04")) == Seq("a a"))
      assert(job.state._1 == 2)
      assert(job.feed(delivery("x", "10:05:00.001")) == Seq())
      assert(job.state._1 == 1, "a has left, whatever the watermark of the orders is")
      assert(job.feed(delivery("b", "12:00")) == Seq("b b"))
      assert(job.feed(delivery("x", "12:01")) == Seq())
      assert(job.state._1 == 0)
    }
  }

  test("a value beyond the longest lifetime fails the query, unless its row is late or matches nothing") {
    carries(Simple) { job =>
      job.feed(order("a", "10:00", "2024-07-01T10:00"))
      job.feed(order(null, "10:00", "9999-12-31T00:00"), order("n", "10:00", null))
      val error = failure(job.feed(order("far", "10:00", "9999-12-31T00:00")))
      assert(SparkTest.errorClass(error).contains("STREAMJOIN_BEYOND_MAX_LIFETIME"))
      val message = SparkTest.messages(error).mkString
      assert(message.contains("o.until = 9999-12-31T00:00:00Z"), message)
      assert(message.contains("30 days after o.t = 2024-06-01T10:00:00Z"), message)
    }
    carries(Simple) { job =>
      job.feed(order("b", "11:00", "12:00"), delivery("b", "11:00"))
      job.feed(order("c", "12:00", "12:00"), delivery("c", "12:00"))
      assert(job.feed(order("late", "10:00", "9999-12-31T00:00")) == Seq())
      assert(job.dropped == 1)
    }
  }

  test("with cut, a row matches for the longest lifetime only, however the rows come") {
    withConf("spark.streamjoin.beyondMaxLifetime" -> "cut", "spark.streamjoin.maxLifetime" -> "10m") {
      for (
        (condition, isStrict) <- Seq(
          Simple -> false,
          "o.id = d.id AND d.t >= o.t AND d.t < o.until" -> true
        )
      ) {
        val rows = Seq(
          order("a", "10:00", "9999-12-31T00:00"),
          delivery("a", "10:09"),
          delivery("a", "10:10"),
          delivery("a", "10:10:00.000001")
        )
        val matches = if (isStrict) 1 else 2
        carries(condition)(job => assert(job.feed(rows: _*).size == matches))
        carries(condition) { job =>
          assert(rows.flatMap(row => job.feed(row)).size == matches)
          job.feed(delivery("x", "10:11"))
          assert(job.state._1 == 0)
        }
      }
    }
  }

  test("a longer lifetime, or cut, in a new checkpoint") {
    val far = order("far", "10:00", "2024-08-01T00:00")
    for (
      setting <- Seq("spark.streamjoin.maxLifetime" -> "90d", "spark.streamjoin.beyondMaxLifetime" -> "cut")
    ) {
      carries(Simple) { job =>
        assert(SparkTest.errorClass(failure(job.feed(far))).contains("STREAMJOIN_BEYOND_MAX_LIFETIME"))
      }
      withConf(setting) {
        carries(Simple)(job => assert(job.feed(far, delivery("far", "10:05")) == Seq("far")))
      }
    }
  }

  test("the longest lifetime may be longer than any time") {
    withConf("spark.streamjoin.maxLifetime" -> "200000000d") {
      carries(Simple) { job =>
        job.feed(order("a", "10:00", "9999-12-31T00:00"))
        assert(job.feed(delivery("a", "10:30")) == Seq("a"))
      }
    }
  }

  test("with keep, a row stays as long as it says") {
    withConf("spark.streamjoin.beyondMaxLifetime" -> "keep") {
      carries(Simple) { job =>
        job.feed(order("a", "10:00", "9999-12-31T00:00"), order("b", "10:00", "2024-08-01T00:00"))
        job.feed(delivery("x", "2024-08-01T00:00"), order("x", "2024-08-01T00:00", "2024-08-01T00:00"))
        job.feed(delivery("x", "2024-08-02T00:00"), order("x", "2024-08-02T00:00", "2024-08-02T00:00"))
        assert(job.feed(delivery("a", "2025-01-01T00:00")) == Seq("a"))
        assert(job.state._1 == 1)
      }
    }
  }

  test("a value that cannot be computed fails the query only for a pair, as in Spark") {
    val condition = "o.id = d.id AND d.t >= o.t AND d.t <= timestampadd(MINUTE, CAST(10 / o.v AS INT), o.t)"
    carries(condition) { job =>
      assert(job.feed(order("a", "10:00", null, v = 0), order("b", "10:00", null, v = 2)) == Seq())
      assert(job.feed(delivery("b", "10:05"), delivery("x", "10:06")) == Seq("b"))
      job.feed(delivery("x", "10:07"))
      assert(job.state._1 == 1, "the row without a value is kept")
      assert(SparkTest.messages(failure(job.feed(delivery("a", "10:08")))).mkString.contains("BY_ZERO"))
    }
  }

  // What is accepted, and in which words.

  private lazy val streams = newStreams(Columns)

  private def joined(condition: String): DataFrame =
    streams.marked("o").join(streams.marked("d"), expr(condition))

  test("several event times to count the longest lifetime from are rejected") {
    val both = joined(Hourly).selectExpr("o.id", "o.t", "d.t AS s", "o.until").as("f")
    val condition = "f.id = e.id AND e.t >= f.t AND e.t >= f.s AND e.t <= f.until"
    def above(on: String = condition) = both.join(streams.marked("e"), expr(on))
    val error = rejection(above())
    assert(error.getCondition == "STREAMJOIN_AMBIGUOUS_LIFETIME")
    assert(error.getMessage.contains("f.t, f.s"), error.getMessage)
    withConf("spark.streamjoin.beyondMaxLifetime" -> "keep") {
      spark.withActive(assert(joins(above()).size == 2))
    }
    val rewrite = error.getMessageParameters.get("rewrite")
    assert(joins(above(s"$condition AND $rewrite")).size == 2)
  }

  test("the settings are part of the checkpoint") {
    val first = job(query(Simple), Columns)
    running(first)(_.feed(order("a", "10:00", "10:05")))
    for (
      changed <- Seq("spark.streamjoin.maxLifetime" -> "7d", "spark.streamjoin.beyondMaxLifetime" -> "cut")
    ) {
      val error = withConf(changed) {
        intercept[Exception](running(first.successor(query(Simple)))(_.settle()))
      }
      assert(SparkTest.errorClass(error).contains("STREAMJOIN_CHECKPOINT_CHANGED"), s"$changed $error")
    }
    running(first.successor(query(Simple)))(job => assert(job.feed(delivery("a", "10:05")) == Seq("a")))
  }
}
