package org.apache.spark.sql.streamjoin.joins.interval

import org.scalatest.Assertion
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.functions.expr
import org.apache.spark.sql.streaming.StreamingQueryException
import org.apache.spark.sql.streamjoin.{JoinTest, SparkTest}
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.{DataFrame, Row}

import streamjoin.core.{JoinType, Side}

/**
 * Joins in which each row of a side carries the time at which it leaves. Random traces without late
 * rows are compared with Spark's batch join, and with the same query when no row ever leaves.
 */
class CarriedBoundsSuite extends AnyFunSuite with JoinTest {
  import CarriedBoundStories._
  import JoinTest._

  private val all = for {
    seed <- 1 to SparkTest.seeds(default = 1)
    condition <- Conditions
    joinType <- JoinType.all
  } yield new Story(seed.toLong, condition, joinType)

  testAll[Story](SparkTest.part(all, every = 7), _.toString)(compare)

  private def compare(story: Story): Assertion = {
    val session = spark.newSession()
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
      assert(left + right <= 4, "expired rows must leave the state")
    }
  }

  private def expected(story: Story): Seq[String] =
    story.joined(batchOf(story.batches.flatten)).collect().map(text(_: Row)).sorted.toSeq

  private def batchOf(fed: Seq[(String, Row)])(name: String): DataFrame = {
    val rows = fed.collect { case (`name`, row) => row }
    spark
      .createDataFrame(spark.sparkContext.parallelize(rows), StructType.fromDDL(Columns))
      .as(name)
  }

  // One at a time, as the hook is for all queries.
  for (condition <- SparkTest.part(Conditions, every = 3, from = 1))
    test(s"the same rows as without eviction, in less state: $condition") {
      val story = Iterator
        .from(100)
        .map(seed => new Story(seed.toLong, condition, JoinType.Inner))
        .find(expected(_).size > 5)
        .get
      val (rows, kept) = run(story, keepsAll = false)
      val (control, allKept) = run(story, keepsAll = true)
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

  private def order(id: String, time: String, until: String, v: Int = 1) =
    "o" -> Row(id, at(time), if (until == null) null else at(until), v)

  private def delivery(id: String, time: String) = "d" -> Row(id, at(time), at(time), 1)

  private val Simple = "o.id = d.id AND d.t BETWEEN o.t AND o.until"

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

  test("the join above one with such a bound goes by either side's time") {
    withConf("spark.streamjoin.maxLifetime" -> "2d") {
      for (time <- Seq("d.t", "o.t")) {
        val story = new Story(7L, Conditions.head, JoinType.Inner)
        def chain(input: String => DataFrame, third: DataFrame) = input("o")
          .join(input("d"), expr(story.condition))
          .join(third, expr(s"d.id = e.id AND e.t BETWEEN $time AND $time + INTERVAL 2 DAYS"))
          .selectExpr("o.v AS a", "d.v AS b", "e.v AS c")
        def third(rows: Seq[(String, Row)]) = rows.collect { case ("d", row) => "e" -> row }
        val query =
          (streams: Streams) => chain(streams.marked(_, "2 minutes"), streams.marked("e", "2 minutes"))
        running(job(query, Columns)) { job =>
          story.batches.foreach(rows => job.feed(rows ++ third(rows): _*))
          (0 until 3).foreach(_ => job.feed(story.end ++ third(story.end): _*))
          val fed = batchOf(story.batches.flatten ++ third(story.batches.flatten)) _
          val seen = withoutClosingRows(job.seen.flatMap(_.rows), End.toString).sorted
          assert(seen == chain(fed, fed("e")).collect().map(text(_: Row)).sorted.toSeq)
          assert(seen.nonEmpty && job.dropped == 0)
          assert(job.progress.stateOperators.map(_.numRowsTotal).sum <= 12)
        }
      }
    }
  }

  test("what a running query keeps is explained") {
    for (beyond <- Seq("fail", "keep")) withConf("spark.streamjoin.beyondMaxLifetime" -> beyond) {
      carries(Simple, "left_outer") { job =>
        job.feed(order("a", "10:00", "10:05"), order("b", "10:01", "11:00"), delivery("x", "10:03"))
        val shown = spark
          .sql(s"SELECT * FROM sj_explain_analyze('${job.streaming.id}', false)")
          .where("operator = 1 AND side = 'left'")
          .selectExpr("rows_kept", "leaves_by", "leaves_after")
          .collect()
          .map(text(_: Row))
          .toSeq
        assert(shown.map(_.takeWhile(_ != ' ')) == Seq("2"), shown)
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

  test("a comparison of values alone, or in the other direction, bounds nothing") {
    val cases = Seq(
      "o.id = d.id AND d.t <= o.until" -> "right",
      "o.id = d.id AND o.t <= d.t" -> "left",
      "o.id = d.id AND d.t >= o.until" -> "left",
      "o.id = d.id AND o.until >= d.until AND d.t >= o.t" -> "left"
    )
    for ((condition, side) <- cases) {
      val error = rejection(joined(condition))
      assert(Seq("STREAMJOIN_UNBOUNDED", "STREAMJOIN_NO_WATERMARK").contains(error.getCondition), condition)
      assert(error.getMessageParameters.get("side") == side, condition)
    }
  }

  test("a value that differs from batch to batch is rejected") {
    val error = rejection(
      joined("o.id = d.id AND d.t >= o.t AND d.t <= greatest(o.until, current_timestamp())")
    )
    assert(error.getCondition == "STREAMJOIN_BOUND_NOT_CONSTANT")
    assert(error.getMessage.contains("differs from batch to batch"))
  }

  test("a constant bound decides alone, so that a checkpoint keeps the layout of its state") {
    val join = joins(joined(s"$Hourly AND d.t <= o.until")).head
    assert(join.plan.carried.isEmpty && join.carried.isEmpty)
    assert(joins(joined(Simple)).head.plan.carried.map(_.side) == Seq(Side.Left))
  }

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

  test("sj.bounds and EXPLAIN show the value and the limit") {
    val rows = BoundsOfQuery.rows(joined(Simple).queryExecution.analyzed, spark).map(_.toSeq.drop(1))
    assert(
      rows.contains(
        Seq(
          "left",
          "o",
          "until",
          "d.t <= o.until",
          "o kept until o.until, at most 30 days",
          "(d.t <= o.until)",
          "this join"
        )
      ),
      rows
    )
    running(job(query(Simple), Columns)) { job =>
      job.feed(order("a", "10:00", "10:05"))
      assert(job.joins.head.toString.contains("kept until o.until") || job.plan.toString.contains("o.until"))
    }
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
