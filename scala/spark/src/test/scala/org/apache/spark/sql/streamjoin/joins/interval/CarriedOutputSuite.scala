package org.apache.spark.sql.streamjoin.joins.interval

import java.nio.file.{Files, Path}

import org.scalatest.Assertion
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.functions.{col, count, expr, lit, window}
import org.apache.spark.sql.streamjoin.{Frames, JoinTest, SparkTest}
import org.apache.spark.sql.{DataFrame, Row}
import org.apache.spark.util.ManualClock

import streamjoin.core.JoinType

/**
 * Operators above a join in which rows carry the time at which they leave. They wait for the rows
 * in state if they use the event time of these, and only then.
 */
class CarriedOutputSuite extends AnyFunSuite with JoinTest {
  import CarriedBoundStories._
  import JoinTest._

  private def perWindow(joined: DataFrame, time: String = "o.t"): DataFrame = joined
    .groupBy(window(col(time), "10 minutes").as("w"))
    .agg(count(lit(1)).as("n"))
    .selectExpr("w.start", "n")

  private def simple(how: String = "inner")(streams: Streams): DataFrame =
    streams.marked("o").join(streams.marked("d"), expr(Simple), how)

  private val first =
    Seq(order("a", "10:00", "10:05"), order("b", "10:01", "12:00"), delivery("a", "10:03"))
  private def both(time: String) = Seq(order(s"x$time", time, time), delivery(s"x$time", time))

  for (how <- SparkTest.part(Seq("inner", "left_outer"), every = 2))
    test(s"a window over the time of a row closes once the row has left, $how") {
      running(job(streams => perWindow(simple(how)(streams)), Columns)) { job =>
        job.feed(first: _*)
        assert(job.feed(both("11:00"): _*) == Seq(), "b is open until 12:00")
        assert(job.feed(delivery("b", "11:30")) == Seq())
        assert(job.feed(both("13:00"): _*) == Seq("10:00 2", "11:00 1"))
        assert(job.dropped == 0)
      }
    }

  test("an operator that uses only the time of the other side does not wait for the rows in state") {
    running(job(streams => perWindow(simple()(streams), "d.t"), Columns)) { job =>
      job.feed(first: _*)
      assert(job.feed(both("11:00"): _*) == Seq("10:00 1"))
      assert(job.feed(delivery("b", "11:30")) == Seq())
      assert(job.feed(both("13:00"): _*) == Seq("11:00 1", "11:30 1"))
      assert(job.dropped == 0)
    }
  }

  testLong("an idle input does not hold a window open") {
    val clock = new ManualClock(1000000000000L)
    val query =
      (streams: Streams) => perWindow(mayBeIdle(streams, "o").join(streams.marked("d"), expr(Simple)))
    val made = job(query, Columns)
    made.clock = clock
    running(made) { job =>
      job.feed(order("a", "10:00", "10:05"), delivery("a", "10:03"))
      assert(job.feed(delivery("x", "12:00")) == Seq())
      clock.advance(30000)
      assert(job.settle() == Seq("10:00 1"))
    }
  }

  test("without a longest lifetime, nothing can wait for the time of the row") {
    withConf("spark.streamjoin.beyondMaxLifetime" -> "keep") {
      val joined = simple()(newStreams(Columns))
      assert(rejection(perWindow(joined)).getCondition == "STREAMJOIN_WATERMARK_UNDEFINED")
      assert(joins(perWindow(joined, "d.t")).size == 1)
    }
  }

  testLong("rows are emitted in the order of the time of rows in state") {
    val story = new Story(11L, Conditions.head, JoinType.Inner)
    val columns = Seq("o.t AS t", "o.v AS a", "d.v AS b")
    running(job(streams => Frames.sorted(story.query(streams).selectExpr(columns: _*), "t"), Columns)) {
      job =>
        story.batches.foreach(rows => job.feed(rows: _*))
        (0 until 3).foreach(_ => job.feed(story.end: _*))
        val seen = job.seen.flatMap(_.rows)
        assert(seen.size > 3 && seen.map(_.takeWhile(_ != ' ')) == seen.map(_.takeWhile(_ != ' ')).sorted)
        val all = story.joined(batchOf(spark, story.batches.flatten)).selectExpr(columns: _*)
        assert(seen.sorted == all.collect().map(text(_: Row)).sorted.toSeq)
    }
  }

  // Random rows.

  /** Each row of the result has a time of the left side. */
  private val types = JoinType.all.filter(how => !how.pads(streamjoin.core.Side.Right))

  private val all = for {
    seed <- 1 to SparkTest.seedsOf(Conditions.size * types.size)
    condition <- Conditions
    joinType <- types
  } yield new Story(seed.toLong, condition, joinType)

  private def expected(story: Story): Seq[String] =
    texts(perWindow(story.joined(batchOf(spark, story.batches.flatten))))

  private def texts(rows: DataFrame): Seq[String] = rows.collect().map(text(_: Row)).sorted.toSeq

  private def windows(story: Story): Job = job(streams => perWindow(story.query(streams)), Columns)

  private val some = SparkTest.part(all, every = 52, from = 26)

  testAll[Story](some, story => s"each window closes, complete: $story") { story =>
    running(windows(story)) { job =>
      story.batches.foreach(rows => job.feed(rows: _*))
      (0 until 2).foreach(_ => job.feed(story.end: _*))
      assert(job.seen.flatMap(_.rows).sorted == expected(story))
      assert(job.dropped == 0)
    }
  }

  // Each takes several times as long as the others.
  private val repeated = all.indices.by(5).map(all).filter(_.batches.head.nonEmpty)

  for (story <- SparkTest.part(repeated, every = 20, from = 11))
    test(s"batches that run again, and watermarks that were not written: $story") {
      running(windows(story)) { job =>
        (story.batches ++ Seq(story.end, story.end)).zipWithIndex.foreach { case (rows, number) =>
          job.feed(rows: _*)
          if (number % 2 == 0) runsAgain(job) else losesNext(job)
        }
        job.settle()
        val once = job.seen.groupBy(_.id).values.flatMap(_.head.rows).toSeq
        assert(once.sorted == expected(story))
      }
    }

  private def runsAgain(job: Job): Assertion = {
    val last = job.redoLast()
    assert(job.seen.filter(_.id == last).map(_.rows.sorted).distinct.size == 1)
  }

  /** As if the query had been killed once the last batch was committed. */
  private def losesNext(job: Job): Assertion = {
    val folder = Path.of(job.stop().checkpoint, "keyed-watermarks")
    val written = SparkTest.numbers(folder).max
    assert(written == SparkTest.numbers(Path.of(job.checkpoint, "commits")).max + 1)
    SparkTest.remove(folder.resolve(written.toString))
    job.start().settle(): Unit
    succeed
  }

  test("the watermarks of a batch have how old the rows in state are") {
    running(job(streams => perWindow(simple()(streams)), Columns)) { job =>
      job.feed(first: _*)
      job.feed(both("11:00"): _*)
      val folder = Path.of(job.stop().checkpoint, "keyed-watermarks")
      val last = Files.readString(folder.resolve(SparkTest.numbers(folder).max.toString))
      val micros = at("10:01").getTime * 1000
      assert(last.contains(s""""lowestKept":[{"operator":0,"column":0,"timeMicros":$micros}]"""), last)
    }
  }

  // One at a time, as the hook is for all queries.
  testLong("the same windows as from all pairs without eviction") {
    val story = new Story(7L, Conditions(5), JoinType.Inner)
    IntervalJoinExec.keepsAll = true
    val pairs =
      try
        running(
          job(story.query(_).select(window(col("o.t"), "10 minutes").as("w")).select("w.start"), Columns)
        ) { job =>
          story.batches.foreach(rows => job.feed(rows: _*))
          job.seen.flatMap(_.rows)
        }
      finally IntervalJoinExec.keepsAll = false
    val control = pairs.groupBy(identity).map { case (start, rows) => s"$start ${rows.size}" }.toSeq.sorted
    assert(control.nonEmpty)
    running(windows(story)) { job =>
      story.batches.foreach(rows => job.feed(rows: _*))
      (0 until 2).foreach(_ => job.feed(story.end: _*))
      assert(job.seen.flatMap(_.rows).sorted == control)
    }
  }

  for (time <- SparkTest.part(Seq("d.t", "o.t"), every = 2, from = 1))
    test(s"a join above by $time, and its rows leave") {
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
        val fed = batchOf(spark, story.batches.flatten ++ third(story.batches.flatten)) _
        val seen = withoutClosingRows(job.seen.flatMap(_.rows), End.toString).sorted
        assert(seen == texts(chain(fed, fed("e"))))
        assert(seen.nonEmpty && job.dropped == 0)
        assert(job.progress.stateOperators.map(_.numRowsTotal).sum <= 12)
      }
    }
}
