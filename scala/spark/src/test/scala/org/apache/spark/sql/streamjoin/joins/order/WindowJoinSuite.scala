package org.apache.spark.sql.streamjoin.joins.order

import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.functions.expr
import org.apache.spark.sql.streamjoin.{Frames, JoinTest, SparkTest}
import org.apache.spark.sql.{DataFrame, Row}

import streamjoin.core.{JoinWindow, JoinWindows, Side}

/**
 * Window joins, which emit rows in the order of rowtime. The traces say what is emitted when,
 * and random joins are compared with DuckDB in Python; this suite covers what is around them.
 */
class WindowJoinSuite extends AnyFunSuite with JoinTest {
  import JoinTest._

  private val Minute = 60L * 1000000

  private def following(minutes: Long) = JoinWindows(Map(Side.Right -> JoinWindow(minutes * Minute, true)))

  private def window(how: String = "full_outer", windows: JoinWindows = following(10))(
      streams: Streams
  ): DataFrame =
    Frames
      .windows(streams.marked("o").join(streams.marked("d"), expr("o.id = d.id"), how), windows)
      .selectExpr("rowtime", "o.id", "o.v", "d.v")

  /** Batches whose rows are up to five minutes behind the newest row before them. */
  private def story(seed: Long): Seq[Seq[(String, Row)]] = {
    val random = new Random(seed)
    def time(minutes: Int) = f"${10 + minutes / 60}%02d:${minutes % 60}%02d"
    val batches = (0 until (if (SparkTest.isLong) 6 else 4)).map { batch =>
      Seq("o", "d").flatMap { stream =>
        (0 until 8).map { n =>
          val minute = math.max(0, batch * 10 + random.nextInt(15) - 5)
          stream -> row(s"k${random.nextInt(3)}", time(minute), batch * 100 + n)
        } :+ (stream -> row(s"$stream-last", time(batch * 10 + 10), batch))
      }
    }
    batches :+ Seq(o("o-end", "20:00"), d("d-end", "20:00")) :+ Seq(o("o-end", "20:01"), d("d-end", "20:01"))
  }

  private def delayed(how: String)(streams: Streams): DataFrame = Frames
    .windows(
      streams.marked("o", "5 minutes").join(streams.marked("d", "5 minutes"), expr("o.id = d.id"), how),
      following(10)
    )
    .selectExpr("rowtime", "o.id", "o.v", "d.v")

  private def rowtimes(rows: Seq[String]): Seq[String] = rows.map(_.takeWhile(_ != ' '))

  for (how <- SparkTest.part(Seq("full_outer", "inner"), 2))
    test(s"$how: stopped and started after every batch, and the last batch run again") {
      val whole = running(job(delayed(how))) { job =>
        story(1).foreach(rows => job.feed(rows: _*))
        job.seen.flatMap(_.rows).toSeq
      }
      assert(whole.size > 30)
      assert(rowtimes(whole) == rowtimes(whole).sorted)
      running(job(delayed(how))) { job =>
        // When a batch runs again, its rows come in another order.
        job.order = _.reverse
        story(1).foreach { rows =>
          job.feed(rows: _*)
          job.redoLast()
        }
        val attempts = job.seen.groupBy(_.id).toSeq.sortBy(_._1).map(_._2.map(_.rows))
        attempts.foreach(same =>
          assert(same.distinct.size == 1, "another attempt gave other rows, or another order")
        )
        val once = attempts.flatMap(_.head)
        assert(rowtimes(once) == rowtimes(once).sorted)
        assert(once.sorted == whole.sorted)
      }
    }

  test("no state is left once the watermarks have passed") {
    running(job(delayed("full_outer"))) { job =>
      story(2).foreach(rows => job.feed(rows: _*))
      // Both watermarks are 22:55, past the rowtime of every row but these two.
      job.feed(o("o-x", "23:00"), d("d-x", "23:00"))
      val operators = job.progress.stateOperators.map(op => op.operatorName -> op.numRowsTotal).toMap
      // Only the rows that came last are kept.
      assert(operators == Map("streamIntervalJoin" -> 2, OrderKind.progressName -> 0))
    }
  }

  test("with windows over both inputs, rowtime is the later of the two times") {
    val both = JoinWindows(
      Map(Side.Left -> JoinWindow(5 * Minute, false), Side.Right -> JoinWindow(10 * Minute, false))
    )
    running(job(window("full_outer", both))) { job =>
      // At the end, both watermarks are 11:00, past the last rowtime of 10:36.
      val out = Seq(
        job.feed(o("a", "10:00", 1), d("a", "10:05", 2), d("b", "10:00", 3), o("b", "10:10", 4)),
        job.feed(o("c", "10:20", 5), d("c", "10:26", 6)),
        job.feed(o("x", "11:00", 7), d("y", "11:00", 8))
      )
      assert(
        out.flatten
          .filterNot(_.startsWith("11")) == Seq("10:05 a 1 2", "10:10 b 4 3", "10:25 c 5 -", "10:36 - - 6")
      )
    }
  }

  test("rows do not wait for the day of the times to pass, if the join compares it") {
    def withDay(streams: Streams, name: String) =
      streams.marked(name).selectExpr("*", "date_trunc('DAY', t) AS day").as(name)
    def daily(windows: JoinWindows)(streams: Streams) = Frames
      .windows(
        withDay(streams, "o")
          .join(withDay(streams, "d"), expr("o.id = d.id AND o.day = d.day"), "full_outer"),
        windows
      )
      .selectExpr("rowtime", "o.v", "d.v")
    val preceding = JoinWindows(Map(Side.Left -> JoinWindow(10 * Minute, isFollowing = false)))
    for ((windows, rows) <- Seq(following(10) -> Seq("10:00 1 2"), preceding -> Seq("10:05 1 2")))
      running(job(daily(windows))) { job =>
        val out = job.feed(o("a", "10:00", 1), d("a", "10:05", 2))
        // watermarks 11:00
        assert(out ++ job.feed(o("x", "11:00", 3), d("y", "11:00", 4)) == rows)
      }
  }

  test("rows may have geometries, in a window join and in a join without an equality") {
    withConf("spark.sql.geospatial.enabled" -> "true") {
      val point = "st_geomfromwkb(X'0101000000000000000000F03F0000000000000040')"
      def located(name: String)(streams: Streams) =
        streams.marked(name).selectExpr("*", s"$point AS g", s"array(struct($point AS h)) AS many").as(name)
      def joined(streams: Streams) = (located("o")(streams), located("d")(streams))
      val queries = Seq[Streams => DataFrame](
        streams => {
          val (left, right) = joined(streams)
          Frames.windows(left.join(right, expr("o.id = d.id"), "inner"), following(10))
        },
        streams => {
          val (left, right) = joined(streams)
          left.join(right, expr("d.t BETWEEN o.t AND o.t + INTERVAL 10 MINUTES AND o.v < d.v"))
        }
      )
      for (query <- SparkTest.part(queries, every = 2))
        running(job(query(_).selectExpr("o.v", "d.v", "st_srid(o.g)", "st_srid(d.many[0].h)"))) { job =>
          val seen = job.feed(o("a", "10:00", 1), d("a", "10:05", 2)) ++
            job.feed(o("x", "11:00", 9), d("y", "11:00", 8))
          assert(seen == Seq("1 2 0 0"))
        }
    }
  }

  private val DayBefore = JoinWindows(Map(Side.Left -> JoinWindow(24 * 60 * Minute, isFollowing = false)))

  for (how <- SparkTest.part(Seq("left_outer", "full_outer", "left_anti"), every = 3))
    test(s"$how: a window of a day loses no row in a time zone with clock changes") {
      withConf("spark.sql.session.timeZone" -> "America/New_York") {
        val query = (streams: Streams) => {
          val joined = streams.marked("o").join(streams.marked("d"), expr("o.id = d.id"), how)
          Frames.windows(joined, DayBefore).selectExpr("o.id AS id")
        }
        running(job(query)) { job =>
          for (time <- Seq("01T00:00", "02T00:30", "02T02:00", "02T02:10"))
            job.feed(o(s"o of $time", s"2024-01-$time"), d("d", s"2024-01-$time"))
          assert(job.seen.flatMap(_.rows).filter(_.startsWith("o")).toSeq == Seq("o of 01T00:00"))
          assert(job.dropped == 0)
        }
      }
    }

  test("a window of a day is 24 hours long, even if the day is not") {
    withConf("spark.sql.session.timeZone" -> "Europe/Berlin") {
      running(job(window("inner", DayBefore)(_).selectExpr("o.v", "d.v"))) { job =>
        job.feed(o("a", "2024-10-26T12:00", 1), o("b", "2024-10-26T12:00", 2))
        job.feed(d("a", "2024-10-27T12:00", 3), d("b", "2024-10-27T12:00:00.000001", 4))
        // Both watermarks are past the rowtime of the pair, 27 October, 12:00.
        job.feed(o("x", "2024-10-29T12:00"), d("y", "2024-10-29T12:00"))
        job.feed(o("x", "2024-10-30T12:00"), d("y", "2024-10-30T12:00"))
        assert(job.seen.flatMap(_.rows).toSeq == Seq("1 3"))
      }
    }
  }

  /**
   * A window join without a match, over rows that another join keeps for longer than the window.
   */
  private def matchingNothing(how: String, windows: JoinWindows)(streams: Streams): DataFrame = {
    val below = hourly("left_outer")(streams).selectExpr("o.id AS id", "o.t AS at").as("l")
    val joined = below.join(streams.marked("r"), expr("l.id = r.id AND 1 = 0"), how)
    Frames.windows(joined, windows).selectExpr("l.id AS id")
  }

  test("a window join that can match nothing is not planned as a window join") {
    for (windows <- SparkTest.part(Seq(following(10), DayBefore), every = 2, from = 1)) {
      assert(condition(matchingNothing("left_outer", windows)(newStreams())) == "STREAMJOIN_ORDER_TIME")
      running(job(matchingNothing("left_anti", windows))) { job =>
        for (time <- Seq("10:00", "10:20", "10:40", "11:30", "11:40", "11:50"))
          job.feed(o(s"o of $time", time), d("d", time), "r" -> row("r", time, 0))
        assert(job.seen.flatMap(_.rows).toSeq == Seq("o of 10:00", "o of 10:20", "o of 10:40"))
        assert(job.dropped == 0)
      }
    }
  }

  testLong("another window join can follow, on the rowtime of the first") {
    running(job { streams =>
      val first = Frames
        .windows(
          streams.marked("o").join(streams.marked("d"), expr("o.id = d.id"), "inner"),
          following(10)
        )
        .selectExpr("o.id AS id", "rowtime", "o.v AS ov", "d.v AS dv")
        .as("first")
      Frames
        .windows(first.join(streams.marked("r"), expr("first.id = r.id"), "left_outer"), following(20))
        .selectExpr("ov", "dv", "r.v AS rv")
    }) { job =>
      job.feed(o("a", "10:00", 1), d("a", "10:05", 2), "r" -> row("a", "10:15", 3))
      job.feed(o("b", "10:30", 4), d("b", "10:31", 5), "r" -> row("z", "10:30", 6))
      // From here on, all watermarks are past both rowtimes, 10:00 and 10:30.
      job.feed(o("x", "12:00", 7), d("y", "12:00", 8), "r" -> row("z", "12:00", 9))
      job.feed(o("x", "12:10", 7), d("y", "12:10", 8), "r" -> row("z", "12:10", 9))
      assert(job.seen.flatMap(_.rows) == Seq("1 2 3", "4 5 -"))
    }
  }

  test("a union of streams comes out in order, and rows that are late for it are dropped") {
    running(job { streams =>
      val both = streams
        .raw("o")
        .withWatermark("t", "10 minutes")
        .union(streams.raw("d").withWatermark("t", "10 minutes"))
      Frames.sorted(both, "t")
    }) { job =>
      assert(job.feed(o("a", "10:20"), d("b", "10:05"), o("c", "10:10")) == Nil)
      // watermark 10:40 - 10 min = 10:30: the three rows before it are emitted
      assert(job.feed(o("e", "10:40"), d("f", "10:40")).size == 3)
      assert(rowtimes(job.seen.flatMap(_.rows).map(_.drop(2)).toSeq) == Seq("10:05", "10:10", "10:20"))
      // Below the watermark of 10:30 a row is late; a null time is not.
      assert(job.feed(o("late", "10:01"), o("h", null)) == Seq("h - 0"))
      val dropped = job.streaming.recentProgress
        .groupBy(_.batchId)
        .map(_._2.last.stateOperators.head.numRowsDroppedByWatermark)
      assert(dropped.sum == 1)
      checkFigures(job.progress.stateOperators.head, OrderKind)
    }
  }

  test("once the watermark has reached the last time of all, the rows before it are emitted") {
    running(job(streams => Frames.sorted(streams.marked("o"), "t"))) { job =>
      assert(job.feed(o("a", "10:00", 1), o("end", "+294247-01-10T04:00:54.775807")) == Seq("a 10:00 1"))
    }
  }

  private def condition(frame: DataFrame): String = rejection(frame).getCondition

  test("order without a watermark, update mode, and streamjoin switched off are rejected") {
    val streams = newStreams()
    assert(condition(Frames.sorted(streams.raw("o"), "t")) == "STREAMJOIN_ORDER_TIME")
    assert(rejection(window()(newStreams()), mode = "update").getCondition == "STREAMJOIN_OUTPUT_MODE")
    withConf("spark.streamjoin.enabled" -> "false") {
      assert(condition(window()(newStreams())) == "STREAMJOIN_ORDER_DISABLED")
    }
  }

  test("EXPLAIN shows the rowtime order and the interval join") {
    val text = window()(newStreams()).queryExecution.explainString(org.apache.spark.sql.execution.SimpleMode)
    assert(text.contains("StreamRowtimeOrder by rowtime"), text)
    assert(text.contains("StreamIntervalJoin full_outer"), text)
  }
}
