package org.apache.spark.sql.streamjoin.evolve

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.functions.{count, expr, window}
import org.apache.spark.sql.streaming.StreamingQueryException
import org.apache.spark.sql.streamjoin.JoinTest.{Job, Streams, at, d, o}
import org.apache.spark.sql.streamjoin.{Frames, SparkTest}
import org.apache.spark.sql.{AnalysisException, DataFrame}

import streamjoin.core.Side

/** Which changes of a query a checkpoint accepts, when they take effect, how they are undone. */
class EvolutionSuite extends AnyFunSuite with EvolutionTest {

  private def isRejected(old: Job, query: Streams => DataFrame, setting: String): Boolean =
    withConf(Evolve -> setting) {
      val next = old.successor(query)
      try {
        next.start()
        false
      } catch {
        case error: AnalysisException =>
          assert(error.getCondition == "STREAMJOIN_CHECKPOINT_CHANGED")
          true
      } finally next.stop()
    }

  test("a change is accepted by the setting that the error names") {
    for ((changed, setting) <- Seq(half -> "exact", two -> "allow")) {
      val old = after(hour.frame, 4)
      val error = startError(old, changed.frame)
      assert(error.getCondition == "STREAMJOIN_CHECKPOINT_CHANGED")
      assert(error.getMessage.contains(s"$Evolve=$setting accepts this change"), error.getMessage)
      assert(error.getMessageParameters.get("state") == "unchanged")
      assert(isRejected(old, changed.frame, "reject"))
      assert(isRejected(old, changed.frame, "exact") == (setting == "allow"))
      withConf(Evolve -> setting)(running(old.successor(changed.frame))(feed(_, 4))): Unit
    }
  }

  test("of several changes, the error names the one that needs most") {
    val old = after(hour.frame, 4)
    val both = hour.copy(from = 5, to = 120)
    assert(startError(old, both.frame).getMessage.contains(s"$Evolve=allow"))
    val key = (streams: Streams) =>
      streams
        .marked("o")
        .join(streams.marked("d"), expr(hour.copy(from = 5).condition.replace("o.id = d.id", "o.v = d.v")))
        .selectExpr("o.v AS a", "d.v AS b")
    assert(startError(old, key).getMessageParameters.get("what") == "equality")
  }

  test("a change that no setting accepts needs a new checkpoint") {
    val old = after(hour.frame, 3)
    withConf(Evolve -> "allow") {
      val semi = hour.copy(how = "left_semi")
      val error = startError(old, semi.frame)
      assert(error.getMessageParameters.get("what") == "join_type")
      assert(error.getMessage.contains("new checkpoint location"))
      running(job(semi.frame))(job => assert(feed(job, 0).nonEmpty)): Unit
    }
  }

  test("rows that only count as matched are missed if matched ones leave") {
    withConf(Evolve -> "allow") {
      val outer = after(hour.frame, 3).successor(hour.copy(how = "left_outer").frame)
      running(outer)(feed(_, 3))
      for (how <- Seq("left_semi", "left_anti")) {
        val error = withConf(Evolve -> "exact")(startError(outer, hour.copy(how = how).frame))
        assert(error.getMessageParameters.get("results").startsWith("complete from"), error.getMessage)
      }
    }
  }

  test("a wider bound is exact before there is a watermark") {
    withConf(noData, Evolve -> "exact") {
      val old = after(hour.frame, 1)
      running(old.successor(two.frame))(feed(_, 1)): Unit
    }
  }

  testLong("results are complete from the time that the progress shows, and the figure ends") {
    val old = after(half.frame, 5)
    withConf(Evolve -> "allow") {
      val always = running(job(two.frame))(job => (0 until 12).map(feed(job, _)))
      val next = old.successor(two.frame)
      running(next) { job =>
        def isSaid = streamjoin.StreamJoin
          .explainAnalyze(job.streaming)
          .selectExpr("explode(hints) AS hint")
          .where("hint LIKE '%results are complete from%'")
          .count() > 0
        val found = (5 until 12).map { batch =>
          val out = feed(job, batch)
          assert(isSaid == (job.metric("completeFromMs") != -1))
          (batch, out, job.metric("completeFromMs"))
        }
        val from = found.head._3
        // 12:00 and some: deliveries at 12:00 could have matched an order at 10:00.
        assert(from > at("12:00").getTime)
        found.foreach { case (batch, out, _) =>
          assert(out.toSet.subsetOf(always(batch).toSet))
          val isComplete = rows(batch).map(_.time).min * 60000L +
            at("00:00").getTime >= from
          if (isComplete) assert(out == always(batch))
        }
        assert(found.exists { case (batch, out, _) => out != always(batch) })
        assert(found.last._3 == -1)
        job.restart()
        feed(job, 12)
        assert(job.metric("completeFromMs") == -1)
      }
    }
  }

  // What was planned, failed, or runs again.

  private val noData = "spark.sql.streaming.noDataMicroBatches.enabled" -> "false"

  private val changes = Seq(
    ("a wider bound", half.copy("left_outer"), two.copy("left_outer")),
    ("one more preserved side", hour, hour.copy("full_outer")),
    ("a narrower bound", two.copy("left_outer"), half.copy("left_outer")),
    ("a semi join", hour.copy("left_outer"), hour.copy("left_semi"))
  )

  for ((name, was, is) <- if (SparkTest.isLong) changes else changes.take(1)) {
    test(s"$name: the first batch of the change runs again, with the same rows") {
      withConf(noData, Evolve -> "allow") {
        val oracle = new ChangedQueryOracle(noData = false)
        val expected = (0 until 8).map(batch => oracle.feed(if (batch < 4) was else is, rows(batch)))
        val next = after(was.frame, 4).successor(is.frame)
        running(next) { job =>
          assert(feed(job, 4) == expected(4))
          job.redoLast()
          assert(job.seen.map(_.rows.sorted).toSeq == Seq(expected(4), expected(4)))
          assert((5 until 8).map(feed(job, _)) == expected.drop(5))
          job.redoLast()
          assert(job.seen.last.rows.sorted == expected.last)
        }
      }
    }

    test(s"$name: after an attempt that failed, the old query continues, or the changed one") {
      withConf(noData, Evolve -> "allow") {
        for (again <- Seq(was, is)) {
          val oracle = new ChangedQueryOracle(noData = false)
          val expected = (0 until 7).map(batch => oracle.feed(if (batch < 4) was else again, rows(batch)))
          val failing = after(was.frame, 4).successor(is.frame)
          failing.sink = _ => throw new IllegalStateException("no room")
          running(failing)(job => intercept[StreamingQueryException](feed(job, 4)))
          // No permission is needed to go back.
          val next = withConf(Evolve -> (if (again == was) "reject" else "allow"))(
            failing.successor(again.frame).start()
          )
          try {
            next.settle()
            assert(next.seen.map(_.rows.sorted).toSeq == Seq(expected(4)))
            assert((5 until 7).map(feed(next, _)) == expected.drop(5))
          } finally next.stop(): Unit
        }
      }
    }
  }

  test("a change is rejected while a batch is pending; the old query finishes it") {
    withConf(noData, Evolve -> "allow") {
      val old = after(half.frame, 4)
      old.uncommit()
      val error = startError(old, two.frame)
      assert(error.getCondition == "STREAMJOIN_CHECKPOINT_PENDING")
      assert(error.getMessageParameters.get("batch") == "3")
      old.runOnce()
      val oracle = new ChangedQueryOracle(noData = false)
      val expected = (0 until 5).map(batch => oracle.feed(if (batch < 4) half else two, rows(batch)))
      running(old.successor(two.frame))(job => assert(feed(job, 4) == expected(4))): Unit
    }
  }

  test("another change is rejected while a batch of a first attempt is pending") {
    withConf(noData, Evolve -> "allow") {
      val failing = after(hour.frame, 4).successor(two.frame)
      failing.sink = _ => throw new IllegalStateException("no room")
      running(failing)(job => intercept[StreamingQueryException](feed(job, 4)))
      assert(startError(failing, half.frame).getCondition == "STREAMJOIN_CHECKPOINT_PENDING")
      running(failing.successor(two.frame))(_.settle()): Unit
    }
  }

  test("the checkpoint of an older version is changed once it has recorded what that needs") {
    val old = after(hour.frame, 3)
    val record = java.nio.file.Path.of(old.checkpoint, "stream-joins", "0")
    val text = java.nio.file.Files.readString(record)
    SparkTest.overwrite(
      record,
      text.replaceAll(""","(bounds_micros|time_\w+|routing|\w+_condition)":"([^"\\]|\\.)*"""", "")
    )
    withConf(Evolve -> "allow") {
      assert(startError(old, two.frame).getMessage.contains("has committed a batch"))
      running(old)(feed(_, 3))
      assert(java.nio.file.Files.readString(record) == text)
      running(old.successor(two.frame))(feed(_, 4)): Unit
    }
  }

  // Above the join.

  private def counted(query: ChangedQuery)(streams: Streams): DataFrame = query
    .joined(streams)
    .groupBy(window(expr("o.t"), "30 minutes").as("w"))
    .agg(count("*").as("n"))
    .selectExpr("w.start AS a", "n AS b")

  testLong("an aggregation above a wider join opens no window again") {
    withConf(Evolve -> "allow") {
      val was = half
      val oracle = new ChangedQueryOracle
      val pairs = (0 until 12).flatMap(batch => oracle.feed(if (batch < 5) was else two, rows(batch)))
      val old = after(counted(was), 5)
      val next = old.successor(counted(two))
      running(next) { job =>
        (5 until 12).foreach(feed(job, _))
        assert(job.progress.stateOperators.map(_.numRowsDroppedByWatermark).sum == 0)
      }
      val windows = (old.seen ++ next.seen).flatMap(_.rows).map(_.split(' '))
      assert(windows.map(_.head).distinct.size == windows.size)
      val ofOrders = pairs.groupBy(_.split(' ').head.toInt).transform((_, all) => all.size)
      val expected = (0 until 12)
        .flatMap(rows)
        .filter(_.side == Side.Left)
        .groupMapReduce(row => f"${row.time / 30 * 30 / 60}%02d:${row.time / 30 * 30 % 60}%02d")(row =>
          ofOrders.getOrElse(row.v, 0)
        )(_ + _)
      assert(windows.size > 4)
      windows.foreach(found => assert(found(1).toInt == expected(found.head), found.toSeq))
    }
  }

  testLong("an aggregation opens no window again if another change follows and is abandoned") {
    withConf(Evolve -> "allow") {
      val old = after(counted(half), 5)
      val wider = old.successor(counted(two))
      running(wider)(feed(_, 5))
      val abandoned = wider.successor(counted(hour))
      abandoned.sink = _ => throw new IllegalStateException("no room")
      running(abandoned)(job => intercept[StreamingQueryException](feed(job, 6)))
      val again = abandoned.successor(counted(two))
      running(again) { job =>
        job.settle()
        (7 until 12).foreach(feed(job, _))
      }
      val windows = Seq(old, wider, again).flatMap(_.seen).flatMap(_.rows).map(_.takeWhile(_ != ' '))
      assert(windows.size > 6)
      assert(windows.distinct == windows)
    }
  }

  private def ordered(query: ChangedQuery)(streams: Streams): DataFrame = {
    val joined = query.joined(streams).selectExpr("o.t AS t", "o.v AS a", "d.v AS b")
    Frames.sorted(joined, "t").selectExpr("t AS a", "a AS b")
  }

  testLong("an order above a wider join never goes back") {
    withConf(Evolve -> "allow") {
      val old = after(ordered(half), 5)
      val next = old.successor(ordered(two))
      running(next) { job =>
        (5 until 12).foreach(feed(job, _))
        assert(job.dropped == 0)
      }
      val times = (old.seen ++ next.seen).flatMap(_.rows).map(_.split(' ').head)
      assert(times == times.sorted)
      assert(next.seen.flatMap(_.rows).size > 20)
    }
  }

  private val above = Seq[(String, ChangedQuery => Streams => DataFrame)](
    ("an aggregation", query => counted(query)),
    ("an order", query => ordered(query)),
    ("a join", query => chained(query))
  )

  for ((name, query) <- SparkTest.part(above, every = 3))
    test(s"rows that leave by a narrower bound are not late for $name above") {
      withConf(Evolve -> "exact") {
        // They are padded, each in the order of time, and leave together when the bound changes.
        val unmatched = ChangedQuery.Pair("o.v > d.v + 40", _ > _ + 40)
        val (was, is) = (two.copy("left_outer", pair = unmatched), half.copy("left_outer", pair = unmatched))
        running(after(query(was), 6).successor(query(is))) { job =>
          (6 until 9).foreach(feed(job, _))
          assert(job.dropped == 0)
        }
      }
    }

  testLong("a join above a wider one emits each of its rows once") {
    withConf(Evolve -> "allow") {
      def more(job: Job, batch: Int) =
        job.feed(
          rows(batch).map(_.row) ++ rows(batch).filter(_.side == Side.Left).map(row => "e" -> row.row._2): _*
        )
      val old = job(chained(half))
      running(old)(job => (0 until 5).foreach(more(job, _)))
      val next = old.successor(chained(two))
      running(next)(job => (5 until 12).foreach(more(job, _)))
      val found = (old.seen ++ next.seen).flatMap(_.rows)
      val oracle = new ChangedQueryOracle
      val below = (0 until 12).flatMap(batch => oracle.feed(if (batch < 5) half else two, rows(batch)))
      def pairs(rows: Iterable[String]) = rows.map(_.split(' ').take(2).mkString(" ")).toSet
      val (padded, joined) = found.partition(_.endsWith("-"))
      assert(found.distinct == found)
      assert(pairs(padded).intersect(pairs(joined)).isEmpty)
      assert(pairs(found).subsetOf(below.toSet))
      assert(pairs(joined).size > 40)
    }
  }

  // Temporal and as-of joins.

  private def restarted(was: Streams => DataFrame, is: Streams => DataFrame, setting: String = "allow")(
      begin: Job => Any
  )(rest: Job => Any): Seq[String] = {
    val old = job(was)
    running(old)(begin)
    val next = old.successor(is)
    withConf(Evolve -> setting)(running(next)(rest))
    withoutEnd((old.seen ++ next.seen).flatMap(_.rows)).sorted
  }

  testLong("the tolerance of an as-of join becomes longer and shorter") {
    def within(tolerance: String) = values(asof(tolerance = Some(tolerance)))
    def begin(job: Job): Unit = {
      job.feed(d("a", "10:00", 1), d("b", "10:00", 2))
      // Versions before 10:30 leave.
      job.feed(end("11:00"): _*): Unit
    }
    // Too late for the version at 10:00, which has left.
    def rest(job: Job): Unit = {
      job.feed(o("a", "11:10", 3), d("a", "11:05", 4), o("b", "11:20", 5))
      job.feed(end("14:00"): _*)
      job.feed(end("15:00"): _*): Unit
    }
    assert(restarted(within("30 minutes"), within("2 hours"))(begin)(rest) == Seq("3 4", "5 -"))
    assert(restarted(within("2 hours"), within("3 minutes"), "exact")(begin)(rest) == Seq("3 -", "5 -"))
    assert(restarted(within("2 hours"), within("2 hours"), "reject")(begin)(rest) == Seq("3 4", "5 2"))
  }

  test("the type of a temporal join changes, and rows that wait follow the new one") {
    def begin(job: Job): Unit = job.feed(d("a", "10:00", 1), o("a", "10:10", 2), o("b", "10:10", 3)): Unit
    def rest(job: Job): Unit = {
      job.feed(end("14:00"): _*)
      job.feed(end("15:00"): _*): Unit
    }
    val (inner, outer) = (values(temporal("inner")), values(temporal()))
    assert(restarted(outer, inner, "exact")(begin)(rest) == Seq("2 1"))
    assert(restarted(inner, outer)(begin)(rest) == Seq("2 1", "3 -"))
  }

  test("a longer history accepts facts as far back as versions are kept") {
    def query(history: Option[String]) = values(temporal(history = history))
    def begin(job: Job): Unit = {
      job.feed(d("a", "10:00", 1), d("a", "11:00", 2))
      job.feed(end("12:00"): _*): Unit
      job.feed(end("12:01"): _*): Unit
    }
    def rest(job: Job): Unit = {
      // Version 2 has replaced version 1: such a fact would get the wrong one.
      job.feed(o("a", "10:30", 3))
      job.feed(d("a", "13:00", 4))
      job.feed(end("14:00"): _*)
      job.feed(end("14:01"): _*)
      // By now, versions stay for an hour.
      job.feed(o("a", "13:30", 5), o("a", "12:30", 6))
      job.feed(end("18:00"): _*): Unit
    }
    assert(restarted(query(None), query(Some("1 hour")))(begin)(rest) == Seq("5 4"))
  }

  test("what an as-of or temporal join may not change") {
    val old = job(values(asof(tolerance = Some("1 hour"))))
    running(old)(_.feed(begin: _*))
    withConf(Evolve -> "allow") {
      assert(startError(old, values(asof())).getMessageParameters.get("what") == "tolerance_micros")
      assert(
        startError(old, values(asof(on = "o.v = d.v", tolerance = Some("1 hour")))).getMessageParameters
          .get("what") == "equality"
      )
    }
  }
}
