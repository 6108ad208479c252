package org.apache.spark.sql.streamjoin.operator

import java.io.ByteArrayOutputStream

import scala.jdk.CollectionConverters._

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.Row
import org.apache.spark.sql.streamjoin.JoinTest
import org.apache.spark.sql.streamjoin.joins.interval.IntervalJoinKind

import streamjoin.StreamJoin

/** What a user sees of a join: its plan, its bounds and its progress. */
class ExplainSuite extends AnyFunSuite with JoinTest {
  import JoinTest._

  private def printed(body: => Unit): String = {
    val out = new ByteArrayOutputStream
    Console.withOut(out)(body)
    out.toString("UTF-8")
  }

  test("explain() shows the type, condition and bounds of a join that has not started") {
    for (how <- Seq("inner", "left_outer", "full_outer", "left_semi", "left_anti")) {
      val frame = hourly(how, s"$Hourly AND o.v < d.v")(newStreams())
      for (mode <- Seq("simple", "extended", "formatted", "codegen", "cost")) {
        val text = printed(frame.explain(mode))
        if (mode != "codegen") {
          assert(text.contains("StreamIntervalJoin"), s"$how, $mode")
          assert(!text.contains("Exception"), s"$how, $mode: $text")
        }
      }
      val text = printed(frame.explain())
      assert(text.contains(how))
      assert(text.contains("o.id = d.id"))
      assert(text.contains("d.t <= o.t + 1 hour: o kept 1 hour"))
      assert(text.contains("o.t <= d.t: d kept 0 seconds"))
    }
  }

  test("StreamJoin.bounds has a row per bound, in words") {
    val bounds = StreamJoin.bounds(hourly("left_outer")(newStreams()))
    val rows = bounds.select("side", "input", "column", "bound", "keeps").collect().map(text(_: Row)).toSeq
    assert(rows == Seq("left o t d.t <= o.t + 1 hour o kept 1 hour", "right d t o.t <= d.t d kept 0 seconds"))
    assert(bounds.select("conjunct").collect().forall(_.getString(0).contains("o.t")))
    val none = StreamJoin.bounds(newStreams().marked("o"))
    assert(none.collect().isEmpty)
    assert(none.columns.toSeq == bounds.columns.toSeq)
  }

  test("the plan and the progress of a running join show its watermarks and counts") {
    running(job(hourly("left_outer", s"$Hourly AND o.v < 100")(_).selectExpr("o.v", "d.v"))) { job =>
      job.feed(o("a", "10:00", 1), o("b", "10:00", 2), o("c", "10:00", 200), d("a", "10:30", 2))
      val first = job.execution.lastExecution.toString
      Seq("left_outer", "o.id = d.id", "o kept 1 hour", "d kept 0 seconds", "(o.v < 100)", "none yet")
        .foreach(word => assert(first.contains(word), word))
      // W(d) = 11:30 evicts orders before 10:30, W(o) = 11:45 deliveries before 11:45.
      job.feed(o("x", "11:45", 4), d("x", "11:30", 5))
      job.feed(o("late", "09:00", 6), d("late", "10:29", 7))
      val text = job.execution.lastExecution.toString
      assert(text.contains("o.t: 2024-06-01T11:45:00Z"))
      assert(text.contains("d.t: 2024-06-01T11:30:00Z"))
      val all = job.streaming.recentProgress.flatMap(_.stateOperators)
      def sum(metric: String) = all.map(_.customMetrics.asScala.get(metric).fold(0L)(_.longValue)).sum
      assert(all.map(_.operatorName).toSet == Set("streamIntervalJoin"))
      assert(all.map(_.numRowsDroppedByWatermark).sum == 2)
      assert(sum("leftLateRows") == 1)
      assert(sum("rightLateRows") == 1)
      assert(sum("joinedRows") == 1)
      // c could not match; b expired.
      assert(sum("paddedRows") == 2)
      // The two buffered orders of 10:00, and both deliveries.
      assert(sum("evictedRows") == 4)
      assert(job.state == ((1, 0)))
      assert(job.watermark("left") == "11:45")
      assert(job.watermark("right") == "11:30")
      val operator = job.operator
      assert(operator.numRowsTotal == job.state._1 + job.state._2)
      assert(operator.numShufflePartitions == 2)
      assert(operator.numStateStoreInstances == 2)
      assert(operator.memoryUsedBytes > 0)
      checkFigures(operator, IntervalJoinKind)
      // A listener gets it as JSON.
      assert(job.progress.json.contains("\"watermarkMs.left.t\""))
    }
  }
}
