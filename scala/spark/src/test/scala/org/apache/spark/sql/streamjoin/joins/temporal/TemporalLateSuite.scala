package org.apache.spark.sql.streamjoin.joins.temporal

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.Row
import org.apache.spark.sql.functions._
import org.apache.spark.sql.streamjoin.{JoinTest, SparkTest}
import org.apache.spark.util.ManualClock

import streamjoin.StreamJoin

/** Which rows are late in a temporal join, and for which rows a late version still counts. */
class TemporalLateSuite extends AnyFunSuite with TemporalTest {
  import JoinTest._

  test("late rows on both sides are dropped, counted and kept") {
    withConf("spark.streamjoin.lateRows" -> "keep") {
      running(job(values(temporal()))) { job =>
        // Both watermarks are 10:00: the row of 09:58 is emitted; rows before 10:00 will be late.
        job.feed(o("a", "09:58", 1), d("a", "09:58", 2), end("10:00").head, end("10:00")(1))
        job.feed(end("10:00"): _*)
        // The key of the last row has no newer version: rows to come match it.
        val out = job.feed(o("a", "09:59", 5), d("a", "09:57", 6), o("a", "10:00", 7), d("b", "09:57", 8))
        assert(out.isEmpty)
        assert(job.operator.numRowsDroppedByWatermark == 2)
        assert(job.metric("pastVersions") == 1)
        assert(job.metric("keysWithVersion") == 2)
        assert(job.metric("leftLateRows") == 1)
        assert(job.metric("rightLateRows") == 1)
        val kept = StreamJoin
          .lateRows(job.streaming)
          .withColumn("late", expr("from_json(row, 'id STRING, t TIMESTAMP, v INT')"))
          .select("join", "side", "input", "column", "watermark", "late.t", "late.v")
        assert(
          kept.collect().map(text(_: Row)).sorted.toSeq ==
            Seq("1 left o t 2024-06-01T10:00:00Z 09:59 5", "1 right d t 2024-06-01T10:00:00Z 09:57 6")
        )
      }
    }
  }

  test("the watermark of an idle table is carried on by the stream") {
    val clock = new ManualClock(1000000000000L)
    running(clocked(clock)(values(temporal(changes = mayBeIdle(_, "d"))))) { job =>
      assert(job.feed(d("a", "10:00", 1), o("a", "10:30", 2)).isEmpty)
      assert(job.feed(o("b", "11:00", 3)).isEmpty)
      // after 30 seconds d is idle, and o.t carries its watermark on to 11:00
      clock.advance(30000)
      assert(job.settle() == Seq("2 1"))
      // The table is active again: a version is late only if it is replaced for all rows to come.
      assert(job.feed(d("b", "10:58", 4), d("c", "10:01", 7), d("a", "09:59", 8)).isEmpty)
      assert(job.operator.numRowsDroppedByWatermark == 1)
      assert(job.metric("pastVersions") == 2)
      job.restart()
      // The table has reached 11:00 itself: rows from 11:00 on wait.
      assert(
        job.feed(d("b", "11:00", 5), o("b", "11:00", 9), o("a", "11:01", 10), o("c", "11:02", 11)).isEmpty
      )
      clock.advance(60000)
      // d is idle again, and o.t carries its watermark on to 12:00.
      assert(job.feed(o("c", "12:00", 6)) == Seq("10 1", "11 7", "3 5", "9 5"))
      // A row of the stream is late if it is below what has been emitted.
      assert(job.feed(o("b", "11:59", 12), o("b", "12:00", 13)).isEmpty)
      assert(job.operator.numRowsDroppedByWatermark == 1)
    }
  }

  test("rows of a stream that was idle are late only below what has been emitted") {
    val clock = new ManualClock(1000000000000L)
    running(clocked(clock)(values(temporal(facts = mayBeIdle(_, "o"))))) { job =>
      assert(job.feed(d("a", "10:00", 1), o("a", "10:30", 2)).isEmpty)
      assert(job.feed(d("a", "11:00", 3)).isEmpty)
      // after 30 seconds o is idle, and d.t carries its watermark on to 11:00
      clock.advance(30000)
      assert(job.settle() == Seq("2 1"))
      assert(job.feed(d("b", "11:00", 4)).isEmpty)
      // Rows before 11:00 have been emitted: 10:59 is late, 11:00 waits.
      assert(job.feed(o("a", "10:59", 5), o("a", "11:00", 6)).isEmpty)
      assert(job.operator.numRowsDroppedByWatermark == 1)
      job.feed(end("12:00"): _*)
      assert(job.feed(end("12:00"): _*).isEmpty)
      assert(job.seen.flatMap(_.rows).count(_ == "6 3") == 1)
    }
  }

  test("with availableNow, the stream does not wait for versions that do not come") {
    val clock = new ManualClock(1000000000000L)
    val made = clocked(clock)(values(temporal(changes = mayBeIdle(_, "d"))))
    assert(made.runOnce(d("a", "2024-01-01T00:00", 1), o("a", "10:00", 2)).isEmpty)
    clock.advance(86400000)
    // d is idle, and o.t carries its watermark on to 2 June, 10:00.
    assert(made.runOnce(o("a", "2024-06-02T10:00", 3)) == Seq("2 1"))
    clock.advance(86400000)
    assert(made.runOnce(o("b", "2024-06-03T10:00", 4)) == Seq("3 1"))
    // The table has a new version again, and it counts.
    clock.advance(86400000)
    assert(made.runOnce(o("b", "2024-06-04T10:00", 5), d("b", "2024-02-01T00:00", 6)).isEmpty)
    clock.advance(86400000)
    // d is idle again, and o.t carries its watermark on to 5 June, 10:00.
    assert(made.runOnce(o("z", "2024-06-05T10:00", 7)) == Seq("4 6", "5 6"))
  }

  test("from a table loaded in pieces, rows match the newest version of their key, whenever it came") {
    val times =
      Seq("2024-05-02T00:00", "2021-01-01T00:00", "2023-07-01T00:00", "2019-03-04T00:00", "2022-12-31T00:00")
    for (how <- SparkTest.part(Seq("left_outer", "inner"), every = 2))
      running(job(values(temporal(how)))) { job =>
        job.feed(o("none", "10:00", 0))
        times.zipWithIndex.foreach { case (since, at) =>
          job.feed(o("none", s"10:0$at", 0), d(s"k$at", since, at), d("k0", "2019-01-01T00:00", -9))
        }
        job.restart()
        job.feed((0 until 5).map(at => o(s"k$at", "10:30", 10 + at)): _*)
        val matched = ended(job).filterNot(_.startsWith("0 "))
        assert(matched == (0 until 5).map(at => s"${10 + at} $at"), how)
      }
  }
}
