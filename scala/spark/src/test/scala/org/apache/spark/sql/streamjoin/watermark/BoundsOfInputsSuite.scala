package org.apache.spark.sql.streamjoin.watermark

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.functions.{col, count, expr, lit, window}
import org.apache.spark.sql.streamjoin.{Frames, JoinTest}

/**
 * Bounds are rows that say how far a stream is: they move its watermark, and nothing else sees
 * them.
 */
class BoundsOfInputsSuite extends AnyFunSuite with JoinTest {
  import JoinTest._

  private val Bound = -1

  /** Rows with `v` = -1 are bounds. */
  private def bounded(streams: Streams, name: String, lag: String = "0 seconds"): DataFrame =
    Frames
      .withBounds(streams.raw(name).withColumn("b", expr(s"v = $Bound")), "t", "b", Some(lag))
      .as(name)

  private def outer(how: String = "left_outer")(streams: Streams): DataFrame =
    bounded(streams, "o").join(bounded(streams, "d"), expr(Hourly), how).selectExpr("o.v", "d.v")

  test("a bound moves the watermark, but reaches no join, state or output") {
    running(job(outer("full_outer"))) { job =>
      assert(job.feed(o("a", "10:00", 1), o(null, "10:30", Bound), d("a", "10:10", 2)) == Seq("1 2"))
      // Like a data row, it counts from the next batch on: W(o) = 10:30 evicts the delivery.
      assert(job.state == ((1, 0)))
      // W(d) = 11:30 evicts orders before 10:30.
      assert(job.feed(d(null, "11:30", Bound)).isEmpty)
      assert(job.watermark("left") == "10:30")
      assert(job.watermark("right") == "11:30")
      assert(job.state == ((0, 0)))
      // The order of 10:29 and the delivery are late: W(o) = 10:30, W(d) = 11:30.
      assert(job.feed(o("a", "10:29", 3), o("a", "10:31", 4), d("a", "11:29", 5)).isEmpty)
      assert(job.operator.numRowsDroppedByWatermark == 2)
      // W(d) = 11:32 evicts orders before 10:32.
      assert(job.feed(d(null, "11:32", Bound)) == Seq("4 -"))
    }
  }

  test("after a change of per, the partitions of another column count, and only they") {
    def query(per: String)(streams: Streams) = {
      val orders = streams.raw("o").selectExpr("*", "v = -1 AS b", "v % 2 AS odd", "v DIV 100 AS hundreds")
      Frames
        .withBounds(orders, "t", "b", Some("0 seconds"), Some(per))
        .as("o")
        .join(bounded(streams, "d"), expr(Hourly), "left_outer")
        .selectExpr("o.v", "d.v")
    }
    // Partition 0 is at 11:30, partition 1 at 10:00.
    val begin = Seq(o("a", "11:30", 0), o("a", "10:00", 1), d("x", "10:00", 5))
    def begun() = {
      val old = job(query("odd"))
      running(old)(_.feed(begin: _*)): Unit
      old
    }
    running(begun().successor(query("hundreds"))) { job =>
      job.feed(o("b", "10:20", 2), o("b", "11:00", 102))
      job.settle()
      assert(job.watermark("left") == "10:20")
      // It would be late if partition 0 were at 11:30 still.
      assert(job.feed(o("b", "10:40", 3), d("b", "10:50", 6)) == Seq("2 6", "3 6"))
    }
    running(begun().successor(query("id"))) { job =>
      job.feed(o("b", "12:00", 2), o("c", "12:10", 3))
      job.settle()
      // Partitions 0 and 1 will never send a row.
      assert(job.watermark("left") == "12:00")
    }
  }

  test("a bound below the watermark does not move it") {
    running(job(outer())) { job =>
      job.feed(o("a", "10:00", 1), d(null, "10:30", Bound))
      job.feed(d(null, "09:00", Bound))
      job.feed(d(null, null, Bound))
      assert(job.watermark("right") == "10:30")
      assert(job.feed(d("a", "10:45", 2)) == Seq("1 2"))
    }
  }

  test("a row whose bound column is null is data, and the lag applies to bounds too") {
    running(job { streams =>
      val orders = Frames.withBounds(
        streams.raw("o").withColumn("b", expr("nullif(v, 1) = -1")),
        "t",
        "b",
        Some("5 minutes")
      )
      orders.as("o").join(bounded(streams, "d"), expr(Hourly), "left_outer").selectExpr("o.v", "d.v")
    }) { job =>
      assert(job.feed(o("a", "10:00", 1), o("x", "10:30", Bound), d("a", "10:00", 2)) == Seq("1 2"))
      job.feed(o("x", "10:30", Bound))
      // Watermark 10:30 - 5 min = 10:25.
      assert(job.watermark("left") == "10:25")
    }
  }

  test("filters of the query do not see bounds, whichever column they read") {
    Seq("false", "true").foreach { before =>
      withConf("spark.streamjoin.watermarkBeforeFilter" -> before) {
        running(job { streams =>
          val orders = bounded(streams, "o").where("v > 0").where("t > '2024-01-01'")
          val deliveries = bounded(streams, "d").where("id is not null").where("v <> 7 and rand() >= 0")
          orders.join(deliveries, expr(s"$Hourly AND o.v = d.v AND d.v < 100")).selectExpr("o.v", "d.v")
        }) { job =>
          job.feed(o(null, "10:30", Bound), d(null, "11:00", Bound))
          // Also in batches where one side is empty.
          assert(job.feed(o(null, "10:40", Bound)).isEmpty)
          assert(job.feed(d(null, "11:10", Bound)).isEmpty)
          // This batch uses the bounds: W(o) = 10:40, W(d) = 11:10.
          assert(job.feed(o("a", "10:50", 3), d("a", "11:10", 3)) == Seq("3 3"))
          assert(job.watermark("left") == "10:40")
          assert(job.watermark("right") == "11:10")
        }
      }
    }
  }

  test("bounds move the watermark that a stream already has") {
    running(job { streams =>
      val orders = streams.marked("o").withColumn("b", expr(s"v = $Bound"))
      val without = Frames.withBounds(orders.selectExpr("id", "t AS time", "v", "b"), "time", "b")
      assert(without.columns.toSeq == Seq("id", "time", "v"))
      without
        .as("o")
        .join(bounded(streams, "d"), expr("o.id = d.id AND d.t BETWEEN o.time AND o.time + INTERVAL 1 HOUR"))
        .selectExpr("o.v", "d.v")
    }) { job =>
      assert(job.feed(o("a", "10:00", 1), o(null, "12:00", Bound), d("a", "10:10", 2)) == Seq("1 2"))
      job.feed(o(null, "12:00", Bound))
      assert(job.watermark("left", "time") == "12:00")
    }
  }

  test("bounds work in a self-join of a union") {
    running(job { streams =>
      val all = bounded(streams, "o").union(bounded(streams, "e"))
      all.as("o").join(all.as("d"), expr(s"$Hourly AND o.v < d.v"), "left_outer").selectExpr("o.v", "d.v")
    }) { job =>
      val rows = Seq(o("a", "10:00", 1), "e" -> row("a", "10:10", 2), o(null, "12:00", Bound))
      // The watermark of the union is 10:10, that of e: order 2 waits.
      assert(job.feed(rows: _*) == Seq("1 2"))
      // Now it is 12:00 and evicts orders before 11:00, deliveries before 12:00.
      assert(job.feed("e" -> row(null, "12:00", Bound)) == Seq("2 -"))
      assert(job.state == ((0, 0)))
      // The row of 11:00 is late: both branches are at 12:00.
      assert(job.restart().feed(o("a", "11:00", 3), "e" -> row("a", "12:00", 4)).isEmpty)
    }
  }

  test("bounds close the windows of a Spark aggregation, with and without a join") {
    def counted(df: DataFrame) =
      df.groupBy(window(col("t"), "10 minutes")).agg(count(lit(1)).as("n")).selectExpr("n")
    running(job(streams => counted(bounded(streams, "o").where("v > 0")))) { job =>
      assert(job.feed(o("a", "10:00", 1), o("b", "10:05", 1), o("c", "10:05", -2)).isEmpty)
      // W(o) = 10:10 completes the window of 10:00.
      assert(job.feed(o(null, "10:10", Bound)) == Seq("2"))
    }
    running(job { streams =>
      counted(bounded(streams, "o").join(bounded(streams, "d"), expr(Hourly)).select("o.t"))
    }) { job =>
      assert(job.feed(o("a", "10:00", 1), d("a", "10:05", 1)).isEmpty)
      // W(d) = 11:20 evicts orders before 10:20, so the window of 10:00 is complete.
      assert(job.feed(o(null, "11:20", Bound), d(null, "11:20", Bound)) == Seq("1"))
    }
  }

  testLong("bounds move the watermark of a join that is left to Spark") {
    withConf("spark.streamjoin.enabled" -> "false") {
      running(job(outer())) { job =>
        // Spark's watermark of 12:00 evicts orders before 11:00.
        assert(job.feed(o("a", "10:00", 1), o(null, "12:00", Bound), d(null, "12:00", Bound)) == Seq("1 -"))
      }
    }
  }

  test("restarts after each batch do not change the output") {
    val story = Seq(
      Seq(o("a", "10:00", 1), o("b", "10:00", 2)),
      // W(o) = 10:30 evicts the delivery.
      Seq(d("a", "10:10", 3), o(null, "10:30", Bound)),
      // W(d) = 11:10 evicts orders before 10:10.
      Seq(d(null, "11:10", Bound)),
      // 10:00 is late: W(o) = 10:30.
      Seq(o("late", "10:00", 4), o("c", "11:00", 5)),
      // W(d) = 13:00 evicts orders before 12:00.
      Seq(d(null, "13:00", Bound), o(null, "13:00", Bound))
    )
    def run(restarts: Boolean) = running(job(outer("full_outer"))) { job =>
      story.map { rows =>
        val out = job.feed(rows: _*)
        if (restarts) job.restart()
        out
      }
    }
    assert(run(restarts = true) == run(restarts = false))
  }
}
