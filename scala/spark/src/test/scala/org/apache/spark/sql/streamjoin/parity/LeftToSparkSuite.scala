package org.apache.spark.sql.streamjoin.parity

import java.nio.file.{Files, Path}

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.classic.{Dataset => ClassicDataset}
import org.apache.spark.sql.execution.SimpleMode
import org.apache.spark.sql.execution.streaming.operators.stateful.join.StreamingSymmetricHashJoinExec
import org.apache.spark.sql.functions.{expr, max}
import org.apache.spark.sql.streamjoin.checkpoint.OperatorLog
import org.apache.spark.sql.streamjoin.joins.interval.StreamIntervalJoin
import org.apache.spark.sql.streamjoin.watermark.KeyedWatermarkLog
import org.apache.spark.sql.streamjoin.{JoinTest, SparkTest}
import org.apache.spark.sql.{AnalysisException, DataFrame, Row}

/** Which joins are left to Spark: by a setting, or because one side is a table. */
class LeftToSparkSuite extends AnyFunSuite with JoinTest {
  import JoinTest._

  private lazy val streams = newStreams()

  private def sparks(job: Job): Int = job.plan.collect { case join: StreamingSymmetricHashJoinExec =>
    join
  }.size

  private def ourFiles(job: Job): Seq[String] =
    Seq(KeyedWatermarkLog.Directory, OperatorLog.Directory).filter(name =>
      Files.exists(Path.of(job.checkpoint, name))
    )

  test("unbounded=spark leaves to Spark what would be rejected, and nothing else") {
    withConf("spark.streamjoin.unbounded" -> "spark") {
      running(job(picked("inner", "o.id = d.id"))) { job =>
        assert(job.feed(o("a", "10:00", 1), d("a", "18:00", 2)) == Seq("1 2"))
        assert(job.joins.isEmpty)
        assert(sparks(job) == 1)
        assert(ourFiles(job).isEmpty)
      }
      running(job(picked("inner"))) { job =>
        assert(job.feed(o("a", "10:00", 1), d("a", "10:30", 2)) == Seq("1 2"))
        assert(job.joins.size == 1)
        assert(sparks(job) == 0)
      }
      // What Spark does not support either, it rejects with its own error.
      val spark = rejection(hourly("left_outer", "o.id = d.id")(streams))
      assert(!spark.getCondition.startsWith("STREAMJOIN_"))
      // Spark's own rules for the output mode apply: 4.1 has no update mode for joins.
      def updating = job(picked("inner", "o.id = d.id"), mode = "update")
      if (SparkTest.isSpark41)
        assert(intercept[AnalysisException](updating.start()).getMessage.contains("Update output mode"))
      else
        running(updating)(job => assert(job.feed(o("a", "10:00", 1), d("a", "18:00", 2)) == Seq("1 2")))
    }
  }

  test("unbounded=spark: one of our joins and one of Spark's can run in one query") {
    withConf("spark.streamjoin.unbounded" -> "spark") {
      running(job { streams =>
        val first = picked("inner")(streams).as("f")
        first.join(streams.raw("e").as("e"), expr("f.a = e.v")).selectExpr("a", "b", "e.id")
      }) { job =>
        assert(job.feed(o("a", "10:00", 1), d("a", "10:30", 2), "e" -> row("x", "10:00", 1)) == Seq("1 2 x"))
        assert(job.joins.size == 1)
        assert(sparks(job) == 1)
        assert(job.feed(d("a", "10:40", 3)) == Seq("1 3 x"))
      }
    }
  }

  private val Later = "o.id = e.id AND e.t BETWEEN o.t AND o.t + INTERVAL 1 HOUR"

  /** A join that we reject, above one that Spark's checker would reject. */
  private def mixed(below: String, how: String = "inner", on: String = "o.id = e.id"): Streams => DataFrame =
    streams =>
      streams
        .marked("o")
        .join(streams.marked("d"), expr(below), "left_anti")
        .join(streams.marked("e"), expr(on), how)

  test("unbounded=spark: a join that Spark does not support can run below one of Spark's") {
    withConf("spark.streamjoin.unbounded" -> "spark") {
      for (below <- Seq(Hourly, "d.t BETWEEN o.t AND o.t + INTERVAL 1 HOUR"))
        running(job(mixed(below)(_).selectExpr("o.v", "e.v"))) { job =>
          job.feed(o("a", "10:00", 1), o("b", "10:00", 2), "e" -> row("b", "10:00", 3), d("a", "10:10"))
          assert(job.joins.size == 1)
          assert(sparks(job) == 1)
          // W(d) = 20:00 evicts orders before 19:00; those without a delivery are emitted.
          val out = job.feed(o("x", "20:00"), d("x", "20:00"), "e" -> row("x", "20:00"))
          assert(out == (if (below == Hourly) Seq("2 3") else Nil))
        }
      // An outer join that is left to Spark has to pass Spark's checker.
      assert(!rejection(mixed(Hourly, "left_outer")(streams)).getCondition.startsWith("STREAMJOIN_"))
    }
  }

  test("unbounded=spark: Spark's join above ours waits for the watermarks of our output") {
    withConf("spark.streamjoin.unbounded" -> "spark") {
      // Bounded one way only, so Spark runs it; its left rows expire by the watermark of e.
      val query: Streams => DataFrame = streams =>
        streams
          .marked("o")
          .join(streams.marked("d"), expr(Hourly), "left_outer")
          .selectExpr("o.id", "o.t", "o.v", "d.v AS w")
          .as("o")
          .join(streams.marked("e"), expr("o.id = e.id AND e.t <= o.t + INTERVAL 1 HOUR"), "left_outer")
          .selectExpr("o.v", "w", "e.v")
      running(job(query)) { job =>
        job.feed(o("a", "10:00", 1), d("z", "10:00"), "e" -> row("z", "10:00"))
        assert(job.joins.size == 1)
        assert(sparks(job) == 1)
        // Orders and the third stream run ahead; deliveries hold the order back, and it is not late
        // above.
        job.feed(o("x", "15:00", 8), "e" -> row("x", "15:00"))
        job.feed(o("x", "15:00", 9), "e" -> row("y", "15:00"))
        // At first, W(d) = 20:00 evicts orders before 19:00 from our join.
        val out = job.feed(d("x", "20:00")) ++ job.feed(o("x", "20:00", 7), "e" -> row("y", "20:00")) ++
          job.feed(o("x", "20:00", 7), d("x", "21:00"))
        assert(out.contains("1 - -"))
      }
    }
  }

  test("a rejected join can be explained") {
    for (
      frame <- Seq(
        hourly(condition = "o.id = d.id")(streams),
        hourly("left_anti", "o.v = d.v AND d.t > o.t")(streams),
        mixed("o.v = d.v", on = Later)(streams)
      )
    ) {
      val plan = frame.asInstanceOf[ClassicDataset[Row]].queryExecution.explainString(SimpleMode)
      assert(plan.contains("StreamIntervalJoin rejected: [STREAMJOIN_UNBOUNDED]"))
    }
  }

  test("a join whose condition is always false emits only rows of a preserved side, at once") {
    val never = s"$Hourly AND 1 = 0"
    val fed = Seq(o("a", "10:00", 1), d("a", "10:00", 2))
    val cases = for {
      each <- Seq(
        "inner" -> Nil,
        "left_outer" -> Seq("1 -"),
        "right_outer" -> Seq("- 2"),
        "full_outer" -> Seq("- 2", "1 -")
      )
      condition <- Seq(never, "o.id = d.id AND 1 = 0", "false")
    } yield (each, condition)
    for (((how, out), condition) <- SparkTest.part(cases, every = 5))
      running(job(picked(how, condition))) { job =>
        assert(job.feed(fed: _*) == out)
        job.restart()
        assert(job.feed(fed: _*) == out)
        assert(job.joins.isEmpty, condition)
        assert(sparks(job) == 0, condition)
      }
    for ((how, out) <- Seq("left_semi" -> Nil, "left_anti" -> Seq("1")))
      running(job(hourly(how, never)(_).selectExpr("o.v")))(job => assert(job.feed(fed: _*) == out))
  }

  test("inner and left semi joins run in update mode, also below an aggregation") {
    for (how <- Seq("inner", "left_semi"))
      running(job(hourly(how)(_).selectExpr("o.v"), mode = "update")) { job =>
        assert(job.feed(o("a", "10:00", 1), d("a", "10:30", 2)) == Seq("1"))
        assert(job.feed(o("a", "10:10", 3)) == Seq("3"))
        assert(job.joins.size == 1)
      }
    running(job(hourly()(_).groupBy("o.id").count(), mode = "update")) { job =>
      assert(job.feed(o("a", "10:00", 1), d("a", "10:30", 2)) == Seq("a 1"))
      assert(job.feed(o("a", "10:10", 3)) == Seq("a 2"))
    }
  }

  test("a setting that is not a boolean does not affect a batch query") {
    val table = static("a" -> 1)
    withConf("spark.sql.legacy.setCommandRejectsSparkCoreConfs" -> "false") {
      val conf = spark.sessionState.conf
      try {
        conf.settings.put("spark.streamjoin.enabled", "off")
        assert(table.as("o").join(table.as("d"), "id").count() == 1)
      } finally conf.unsetConf("spark.streamjoin.enabled")
    }
  }

  test("unbounded=spark: a join above an aggregation of Spark's join is left to Spark") {
    withConf("spark.streamjoin.unbounded" -> "spark") {
      val sparks = streams.marked("o").join(streams.marked("d"), expr("o.id = d.id AND o.t >= d.t"))
      val counts = sparks
        .groupBy(expr("window(o.t, '10 minutes')"), expr("o.id"))
        .count()
        .selectExpr("id", "window_time(window) AS t")
        .as("f")
      val frame =
        counts.join(streams.marked("e"), expr("f.id = e.id AND e.t BETWEEN f.t AND f.t + INTERVAL 1 HOUR"))
      assert(joins(frame).isEmpty)
    }
  }

  test("enabled=false leaves all joins to Spark") {
    withConf("spark.streamjoin.enabled" -> "false") {
      for (condition <- SparkTest.part(Seq(Hourly, "o.id = d.id"), every = 2))
        running(job(picked("inner", condition))) { job =>
          assert(job.feed(o("a", "10:00", 1), d("a", "10:30", 2)) == Seq("1 2"))
          assert(job.joins.isEmpty)
          assert(sparks(job) == 1)
          assert(ourFiles(job).isEmpty)
        }
      assert(!rejection(hourly("left_anti")(streams)).getCondition.startsWith("STREAMJOIN_"))
    }
  }

  private def static(rows: (String, Int)*): DataFrame =
    spark.createDataFrame(rows.map { case (id, v) => (id, at("10:00"), v) }).toDF("id", "t", "v")

  test("a join of a stream with a table is left to Spark, on whichever side the table is") {
    val table = static("a" -> 1, "b" -> 2)
    for (
      query <- Seq[Streams => DataFrame](
        streams =>
          streams.marked("o").join(table.as("s"), expr("o.id = s.id"), "left_outer").selectExpr("o.v", "s.v"),
        streams =>
          table
            .as("s")
            .join(streams.marked("o"), expr("o.id = s.id"), "right_outer")
            .selectExpr("o.v", "s.v"),
        streams => streams.raw("o").as("o").join(table.as("s"), "id").selectExpr("o.v", "s.v")
      )
    ) running(job(query)) { job =>
      assert(job.feed(o("a", "10:00", 5)) == Seq("5 1"))
      assert(job.joins.isEmpty)
      assert(sparks(job) == 0)
      assert(ourFiles(job).isEmpty)
    }
  }

  test("an input of our join can be joined with a table") {
    val table = static("a" -> 7, "b" -> 8).selectExpr("id AS key", "v AS s")
    running(job { streams =>
      val left = streams.marked("o").join(table, expr("o.id = key"), "left_outer").as("o")
      left.join(streams.marked("d"), expr(Hourly), "left_outer").selectExpr("o.v", "o.s", "d.v")
    }) { job =>
      // At the end, W(d) = 12:00 evicts orders before 11:00.
      val out = job.feed(o("a", "10:00", 1), o("c", "10:00", 2), d("a", "10:30", 3)) ++
        job.feed(o("x", "12:00", 0), d("x", "12:00", 0))
      assert(out == Seq("1 7 3", "0 - 0", "2 - -"))
      assert(job.joins.size == 1)
    }
  }

  test("a union of stream-static joins is left to Spark; a union above our join runs") {
    val table = static("a" -> 1).selectExpr("id AS key", "v AS s")
    running(job { streams =>
      def one(name: String) =
        streams.marked(name).join(table, expr(s"$name.id = key")).selectExpr(s"$name.v", "s")
      one("o").union(one("d"))
    }) { job =>
      assert(job.feed(o("a", "10:00", 5), d("a", "10:00", 6)) == Seq("5 1", "6 1"))
      assert(job.joins.isEmpty)
      assert(ourFiles(job).isEmpty)
    }
    val above =
      (streams: Streams) => picked("inner")(streams).union(streams.raw("e").selectExpr("v", "v + 1"))
    running(job(above)) { job =>
      val out = job.feed(o("a", "10:00", 1), d("a", "10:00", 2), "e" -> row("e", "10:00", 5))
      assert(out == Seq("1 2", "5 6"))
      assert(job.joins.size == 1)
    }
  }

  test("batch joins are not changed") {
    val (left, right) = (static("a" -> 1, "b" -> 2).as("o"), static("a" -> 3).as("d"))
    for (condition <- Seq(Hourly, "o.id = d.id", "d.t >= o.t", "o.id = d.id AND (d.t >= o.t OR o.v = 1)")) {
      val joined = left.join(right, expr(condition), "left_outer").selectExpr("o.v", "d.v")
      assert(joined.collect().map(text(_: Row)).toSeq.contains("1 3"))
      val plan = joined.asInstanceOf[ClassicDataset[Row]].queryExecution
      assert(!plan.optimizedPlan.exists(_.isInstanceOf[StreamIntervalJoin]))
    }
  }

  test("the sink of our join can run a batch join") {
    val table = static("a" -> 7).selectExpr("id AS key", "v AS s")
    val mine = job(hourly()(_).selectExpr("o.id", "d.v"))
    mine.sink =
      batch => batch.join(table, expr("id = key")).selectExpr("s", "v").collect().map(text(_: Row)).toSeq
    running(mine)(job => assert(job.feed(o("a", "10:00", 1), d("a", "10:30", 2)) == Seq("7 2")))
  }

  test("a join that Spark optimizes away does not bring Spark's checker back") {
    val frame = streams
      .marked("o")
      .join(
        streams.marked("e"),
        expr("o.id = e.id AND e.t BETWEEN o.t AND o.t + INTERVAL 1 HOUR"),
        "left_anti"
      )
      .join(streams.marked("d"), expr(Hourly), "left_outer")
      .groupBy("o.id", "o.t")
      .agg(max("o.t"))
    assert(joins(frame).size == 1)
    val query = frame.writeStream.option("checkpointLocation", newFolder()).format("noop").start()
    query.stop()
  }
}
