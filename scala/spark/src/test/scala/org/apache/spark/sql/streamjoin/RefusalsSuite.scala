package org.apache.spark.sql.streamjoin

import java.io.ByteArrayOutputStream
import java.nio.file.{Files, Path}

import scala.jdk.CollectionConverters._

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.classic.{Dataset => ClassicDataset}
import org.apache.spark.sql.execution.streaming.operators.stateful.join.StreamingSymmetricHashJoinExec
import org.apache.spark.sql.functions.{expr, max}
import org.apache.spark.sql.streamjoin.plans.IntervalJoin
import org.apache.spark.sql.streamjoin.watermark.KeyedWatermarkLog
import org.apache.spark.sql.{AnalysisException, DataFrame, Row}

/** What `start()` refuses, in which words, and what is left to Spark. */
class RefusalsSuite extends AnyFunSuite with JoinTest {
  import JoinTest._

  private lazy val streams = newStreams()

  private def join(
      condition: String,
      how: String = "inner",
      right: Streams => DataFrame = _.marked("d")
  ): DataFrame =
    streams.marked("o").join(right(streams), expr(condition), how)

  /** `start()` throws, before anything is written. */
  private def refusal(frame: DataFrame, mode: String = "append"): AnalysisException = {
    val checkpoint = newFolder()
    val before = spark.streams.active.length
    val refused = intercept[AnalysisException] {
      frame.writeStream.outputMode(mode).option("checkpointLocation", checkpoint).format("noop").start()
    }
    assert(spark.streams.active.length == before)
    assert(Files.list(Path.of(checkpoint)).iterator().asScala.isEmpty, "files in the checkpoint")
    refused
  }

  private def joins(frame: DataFrame): Seq[IntervalJoin] = StreamJoins.of(
    PrepareStreamingQuery.prepare(frame.asInstanceOf[ClassicDataset[Row]].queryExecution.analyzed),
    spark
  )

  private case class Case(condition: String, errorClass: String, side: String, words: Seq[String] = Nil)

  private val hour = "o.t + INTERVAL 1 HOUR"
  private val unbounded = "STREAMJOIN_UNBOUNDED"
  private val inOr = "STREAMJOIN_BOUND_IN_OR"
  private val varies = "STREAMJOIN_BOUND_NOT_CONSTANT"

  private val cases = Seq(
    Case("o.id = d.id", unbounded, "left", Seq("o.id = d.id", "left.time >= right.time")),
    Case("o.id = d.id AND o.v < d.v", unbounded, "left"),
    Case(s"o.id = d.id AND d.t <= $hour", unbounded, "right", Seq("\nd.t >= o.t - INTERVAL 1 HOUR\n")),
    Case("o.id = d.id AND d.t >= o.t", unbounded, "left", Seq("\no.t >= d.t - INTERVAL 1 HOUR\n")),
    Case("o.id = d.id AND o.t <> d.t", unbounded, "left"),
    Case("o.id = d.id AND d.t > TIMESTAMP '2024-01-01' AND o.t > TIMESTAMP '2024-01-01'", unbounded, "left"),
    Case(
      s"o.id = d.id AND (d.t BETWEEN o.t AND $hour OR o.v = 1)",
      inOr,
      "left",
      Seq("(o.v = 1)", "OR", "o.t >= d.t", "INTERVAL")
    ),
    Case(
      s"o.id = d.id AND (d.t BETWEEN o.t AND $hour OR d.t BETWEEN o.t AND o.t + INTERVAL 1 DAY)",
      inOr,
      "left"
    ),
    Case("o.id = d.id AND (d.t > o.t AND d.t < o.t + INTERVAL 3 MICROSECONDS OR d.t = o.t)", inOr, "left"),
    Case("o.id = d.id AND (d.t BETWEEN o.t AND o.t + INTERVAL 200 DAYS OR d.v = 2)", inOr, "left"),
    Case("o.id = d.id AND (d.t > o.t OR d.v = 2) AND d.t <= o.t + INTERVAL 1 HOUR", inOr, "right"),
    Case(s"o.id = d.id AND (d.t <= $hour OR d.v = 2)", inOr, "left"),
    Case(s"o.id = d.id AND NOT (d.t > $hour AND d.v = 2) AND NOT (d.t < o.t AND o.v = 2)", inOr, "left"),
    Case(
      "o.id = d.id AND d.t BETWEEN o.t AND o.t + INTERVAL 1 MONTH",
      varies,
      "left",
      Seq("INTERVAL '1' MONTH", "months or years", "AND o.t >= d.t - INTERVAL 31 DAYS")
    ),
    Case(
      "o.id = d.id AND d.t BETWEEN o.t AND o.t + INTERVAL 1 YEAR",
      varies,
      "left",
      Seq("months or years", "INTERVAL 372 DAYS")
    ),
    Case(
      "o.id = d.id AND d.t BETWEEN o.t - INTERVAL 1 MONTH AND o.t",
      varies,
      "right",
      Seq("months or years")
    ),
    Case("o.id = d.id AND d.t BETWEEN o.t AND timestampadd(MONTH, 1, o.t)", varies, "left"),
    Case("o.id = d.id AND d.t BETWEEN o.t AND add_months(o.t, 1)", varies, "left"),
    Case("o.id = d.id AND d.t BETWEEN o.t AND o.t + make_interval(0, 1)", varies, "left"),
    Case("o.id = d.id AND d.t BETWEEN o.t AND o.t + o.v * INTERVAL 1 MINUTE", varies, "left", Seq("varies")),
    Case("o.id = d.id AND d.t BETWEEN o.t AND o.t + make_interval(0, 0, 0, 0, d.v)", varies, "left"),
    Case("o.id = d.id AND d.t BETWEEN o.t AND timestampadd(HOUR, o.v, o.t)", varies, "left"),
    Case(
      "o.id = d.id AND d.t >= o.t AND d.t - o.t <= o.v * INTERVAL 1 MINUTE",
      varies,
      "left",
      Seq("varies")
    ),
    Case("o.id = d.id AND d.t >= o.t AND d.t <= o.t + (d.t - o.t) * 2", varies, "left"),
    Case("o.id = d.id AND d.t >= o.t AND date_trunc('HOUR', d.t) = date_trunc('HOUR', o.t)", varies, "left"),
    Case(
      "o.id = d.id AND unix_timestamp(d.t) BETWEEN unix_timestamp(o.t) AND unix_timestamp(o.t) + 60",
      varies,
      "left"
    ),
    Case("o.id = d.id AND d.t >= o.t AND d.t <= o.t + (o.t - d.t)", unbounded, "left")
  )

  for (refused <- cases) test(s"${refused.errorClass}: ${refused.condition}") {
    val frame = join(refused.condition)
    val error = refusal(frame)
    assert(error.getCondition == refused.errorClass, error.getMessage)
    assert(error.getSqlState == "0A000")
    val message = error.getMessage
    assert(message.startsWith(s"[${refused.errorClass}]") && message.endsWith("SQLSTATE: 0A000"))
    assert(!message.matches("(?s).*<(\\w+)>.*".r.regex), message)
    assert(!message.matches("(?s).*#\\d.*"), s"Spark's own numbers: $message")
    refused.words.foreach(word => assert(message.contains(word)))
    assert(error.getMessageParameters.get("side") == refused.side)
    assert(message.contains("left o.t, right d.t"), "the columns with a watermark, as the user calls them")
    val rewrite = error.getMessageParameters.get("rewrite")
    assert(joins(join(s"${refused.condition} AND $rewrite")).size == 1, s"with the rewrite $rewrite")
  }

  test("no condition at all") {
    for (frame <- Seq(join("true"), streams.marked("o").crossJoin(streams.marked("d")))) {
      val error = refusal(frame)
      assert(error.getCondition == unbounded)
      assert(error.getMessage.contains("no condition"))
      assert(error.getMessage.contains("left left.t, right right.t"))
    }
  }

  for (how <- Seq("left_outer", "right_outer", "full_outer", "left_semi", "left_anti"))
    test(s"$how: ours to refuse, before Spark does") {
      val none = refusal(join("o.id = d.id", how))
      assert(none.getCondition == "STREAMJOIN_UNBOUNDED")
      assert(none.getMessage.contains(s"The $how join"))
      val or = refusal(join(s"o.id = d.id AND (d.t BETWEEN o.t AND $hour OR o.v = 1)", how))
      assert(or.getCondition == "STREAMJOIN_BOUND_IN_OR")
    }

  // Columns without a watermark.

  test("a side without a watermark") {
    for (
      (side, left, right) <- Seq(
        ("right", "marked", "raw"),
        ("left", "raw", "marked"),
        ("left", "raw", "raw")
      )
    ) {
      def input(kind: String, name: String) =
        if (kind == "raw") streams.raw(name).as(name) else streams.marked(name)
      def over(l: DataFrame, r: DataFrame) = l.join(r, expr(Hourly))
      val error = refusal(over(input(left, "o"), input(right, "d")))
      assert(error.getCondition == "STREAMJOIN_NO_WATERMARK", error.getMessage)
      assert(error.getMessageParameters.get("side") == side)
      val name = if (side == "left") "o" else "d"
      assert(error.getMessageParameters.get("column") == s"$name.t")
      assert(error.getMessageParameters.get("rewrite") == s"""$name.withWatermark("t", "10 seconds")""")
      assert(error.getMessage.contains(s"left ${if (left == "raw") "none" else "o.t"}"))
      assert(error.getMessage.contains(s"right ${if (right == "raw") "none" else "d.t"}"))
      def marked(kind: String, name: String) =
        if (kind == "raw") streams.raw(name).withWatermark("t", "10 seconds").as(name)
        else streams.marked(name)
      assert(joins(over(marked(left, "o"), marked(right, "d"))).size == 1)
    }
  }

  test("a bound on another column than the marked one") {
    val other = streams
      .marked("d")
      .withColumn("at", expr("CAST('2024-01-01' AS TIMESTAMP) + v * INTERVAL 1 DAY"))
      .as("d")
    val error = refusal(
      streams.marked("o").join(other, expr("o.id = d.id AND d.at BETWEEN o.t AND o.t + INTERVAL 1 HOUR"))
    )
    assert(error.getCondition == "STREAMJOIN_NO_WATERMARK")
    assert(error.getMessage.contains("d.at"))
    // Beside a bound that counts, it is only a condition.
    assert(joins(streams.marked("o").join(other, expr(s"$Hourly AND d.at >= o.t"))).size == 1)
  }

  test("a column without a watermark behind another join: withWatermark would not do") {
    val both = streams
      .marked("o")
      .join(streams.marked("d"), expr(Hourly), "full_outer")
      .selectExpr("coalesce(o.id, d.id) AS id", "coalesce(o.t, d.t) AS t", "o.t AS ordered")
      .as("f")
    val error =
      refusal(
        both.join(streams.marked("e"), expr("f.id = e.id AND e.t BETWEEN f.t AND f.t + INTERVAL 1 HOUR"))
      )
    assert(error.getCondition == "STREAMJOIN_NO_WATERMARK")
    val rewrite = error.getMessageParameters.get("rewrite")
    assert(rewrite == "e.t BETWEEN f.ordered - INTERVAL 1 HOUR AND f.ordered + INTERVAL 1 HOUR")
    assert(joins(both.join(streams.marked("e"), expr(s"f.id = e.id AND $rewrite"))).size == 2)
  }

  test("a mark on a window, from which Spark reads no times") {
    def windows(name: String) =
      streams
        .raw(name)
        .withColumn("w", expr("window(t, '10 minutes')"))
        .withWatermark("w", "0 seconds")
        .as(name)
    val error = refusal(windows("o").join(windows("d"), expr("o.id = d.id AND o.w = d.w")))
    assert(error.getCondition == "STREAMJOIN_NO_WATERMARK" && error.getMessage.contains("before window(...)"))
  }

  test("an encoding of the state that is not Spark's rows") {
    withConf("spark.sql.streaming.stateStore.encodingFormat" -> "avro") {
      assert(refusal(join(Hourly)).getCondition == "STREAMJOIN_STATE_ENCODING")
    }
  }

  test("a join that Spark leaves out does not bring its checker back") {
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

  test("a watermark on one branch of a union only") {
    val union = streams.raw("d").union(streams.raw("e").withWatermark("t", "0 seconds")).as("d")
    val error = refusal(streams.marked("o").join(union, expr(Hourly)))
    assert(error.getCondition == "STREAMJOIN_NO_WATERMARK")
  }

  test("update and complete mode") {
    for (mode <- Seq("update", "complete")) {
      val error = refusal(join(Hourly), mode)
      assert(error.getCondition == "STREAMJOIN_OUTPUT_MODE")
      assert(error.getSqlState == "0A000")
      assert(error.getMessage.contains(mode) && error.getMessage.contains("append"))
      val aggregated = refusal(join(Hourly).groupBy("o.id").count(), mode)
      assert(aggregated.getCondition == "STREAMJOIN_OUTPUT_MODE")
    }
  }

  test("one of two joins is refused: so is the query") {
    val first = join(Hourly).selectExpr("o.id AS id", "o.t AS t").as("f")
    val error = refusal(first.join(streams.marked("e"), expr("f.id = e.id")))
    assert(error.getCondition == "STREAMJOIN_UNBOUNDED")
  }

  // Left to Spark.

  private def sparks(job: Job): Int = job.plan.collect { case join: StreamingSymmetricHashJoinExec =>
    join
  }.size

  private def ourFiles(job: Job): Seq[String] =
    Seq(KeyedWatermarkLog.Directory, JoinLog.Directory).filter(name =>
      Files.exists(Path.of(job.checkpoint, name))
    )

  private val picked: DataFrame => DataFrame = _.selectExpr("o.v", "d.v")

  test("unbounded=spark hands over what would be refused, and nothing else") {
    withConf("spark.streamjoin.unbounded" -> "spark") {
      running(job(streams => picked(hourly(condition = "o.id = d.id")(streams)))) { job =>
        assert(job.feed(o("a", "10:00", 1), d("a", "18:00", 2)) == Seq("1 2"))
        assert(job.joins.isEmpty && sparks(job) == 1)
        assert(ourFiles(job).isEmpty)
      }
      running(job(streams => picked(hourly()(streams)))) { job =>
        assert(job.feed(o("a", "10:00", 1), d("a", "10:30", 2)) == Seq("1 2"))
        assert(job.joins.size == 1 && sparks(job) == 0)
      }
      // What Spark does not take either, it refuses in its own words.
      val spark = refusal(join("o.id = d.id", "left_outer"))
      assert(!spark.getCondition.startsWith("STREAMJOIN_"))
      // Its own rules for the output mode.
      running(job(streams => picked(hourly(condition = "o.id = d.id")(streams)), mode = "update")) { job =>
        assert(job.feed(o("a", "10:00", 1), d("a", "18:00", 2)) == Seq("1 2"))
      }
    }
  }

  test("unbounded=spark: one join ours, one Spark's, in one query") {
    withConf("spark.streamjoin.unbounded" -> "spark") {
      running(job { streams =>
        val first = picked(hourly()(streams)).toDF("a", "b").as("f")
        first.join(streams.raw("e").as("e"), expr("f.a = e.v")).selectExpr("a", "b", "e.id")
      }) { job =>
        assert(job.feed(o("a", "10:00", 1), d("a", "10:30", 2), "e" -> row("x", "10:00", 1)) == Seq("1 2 x"))
        assert(job.joins.size == 1 && sparks(job) == 1)
        assert(job.feed(d("a", "10:40", 3)) == Seq("1 3 x"))
      }
    }
  }

  test("unbounded=spark: a join above what Spark makes of one of its joins") {
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

  test("a value of unbounded that is none") {
    intercept[IllegalArgumentException](withConf("spark.streamjoin.unbounded" -> "maybe")(())): Unit
  }

  test("a setting that does not exist") {
    for (name <- Seq("spark.streamjoin.laterows", "spark.streamjoin.enabeld", "spark.streamJoin.enabled"))
      withConf(name -> "keep") {
        val error = refusal(join(Hourly))
        assert(error.getCondition == "STREAMJOIN_UNKNOWN_SETTING")
        assert(error.getMessage.contains(name) && error.getMessage.contains("spark.streamjoin.lateRows,"))
      }
  }

  test("enabled=false leaves all joins to Spark") {
    withConf("spark.streamjoin.enabled" -> "false") {
      for (condition <- Seq(Hourly, "o.id = d.id"))
        running(job(streams => picked(hourly(condition = condition)(streams)))) { job =>
          assert(job.feed(o("a", "10:00", 1), d("a", "10:30", 2)) == Seq("1 2"))
          assert(job.joins.isEmpty && sparks(job) == 1)
          assert(ourFiles(job).isEmpty)
        }
      assert(!refusal(join(Hourly, "left_anti")).getCondition.startsWith("STREAMJOIN_"))
    }
  }

  private def static(rows: (String, Int)*): DataFrame =
    spark.createDataFrame(rows.map { case (id, v) => (id, at("10:00"), v) }).toDF("id", "t", "v")

  test("a stream with a table stays Spark's, both ways round") {
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
      assert(job.joins.isEmpty && sparks(job) == 0)
      assert(ourFiles(job).isEmpty)
    }
  }

  test("joins of a table in the inputs of ours") {
    val table = static("a" -> 7, "b" -> 8).selectExpr("id AS key", "v AS s")
    running(job { streams =>
      val left = streams.marked("o").join(table, expr("o.id = key"), "left_outer").as("o")
      left.join(streams.marked("d"), expr(Hourly), "left_outer").selectExpr("o.v", "o.s", "d.v")
    }) { job =>
      val out = job.feed(o("a", "10:00", 1), o("c", "10:00", 2), d("a", "10:30", 3)) ++
        job.feed(o("x", "12:00", 0), d("x", "12:00", 0))
      assert(out == Seq("1 7 3", "0 - 0", "2 - -"))
      assert(job.joins.size == 1)
    }
  }

  test("unions of a stream-static join stay Spark's; a union of ours works") {
    val table = static("a" -> 1).selectExpr("id AS key", "v AS s")
    running(job { streams =>
      def one(name: String) =
        streams.marked(name).join(table, expr(s"$name.id = key")).selectExpr(s"$name.v", "s")
      one("o").union(one("d"))
    }) { job =>
      assert(job.feed(o("a", "10:00", 5), d("a", "10:00", 6)) == Seq("5 1", "6 1"))
      assert(job.joins.isEmpty && ourFiles(job).isEmpty)
    }
    running(job(streams => picked(hourly()(streams)).union(streams.raw("e").selectExpr("v", "v + 1")))) {
      job =>
        assert(
          job.feed(o("a", "10:00", 1), d("a", "10:00", 2), "e" -> row("e", "10:00", 5)) == Seq("1 2", "5 6")
        )
        assert(job.joins.size == 1)
    }
  }

  test("batch joins are untouched") {
    val (left, right) = (static("a" -> 1, "b" -> 2).as("o"), static("a" -> 3).as("d"))
    for (condition <- Seq(Hourly, "o.id = d.id", "d.t >= o.t", "o.id = d.id AND (d.t >= o.t OR o.v = 1)")) {
      val joined = left.join(right, expr(condition), "left_outer").selectExpr("o.v", "d.v")
      assert(joined.collect().map(text(_: Row)).toSeq.contains("1 3"))
      val plan = joined.asInstanceOf[ClassicDataset[Row]].queryExecution
      assert(!plan.optimizedPlan.exists(_.isInstanceOf[IntervalJoin]))
    }
  }

  test("a batch join in the sink of ours") {
    val table = static("a" -> 7).selectExpr("id AS key", "v AS s")
    val mine = job(hourly()(_).selectExpr("o.id", "d.v"))
    mine.sink =
      batch => batch.join(table, expr("id = key")).selectExpr("s", "v").collect().map(text(_: Row)).toSeq
    running(mine)(job => assert(job.feed(o("a", "10:00", 1), d("a", "10:30", 2)) == Seq("7 2")))
  }

  // The story on the screen.

  private def printed(body: => Unit): String = {
    val out = new ByteArrayOutputStream
    Console.withOut(out)(body)
    out.toString("UTF-8")
  }

  test("explain() of a join that was not started") {
    for (how <- Seq("inner", "left_outer", "full_outer", "left_semi", "left_anti")) {
      val frame = join(s"$Hourly AND o.v < d.v", how)
      for (mode <- Seq("simple", "extended", "formatted", "codegen", "cost")) {
        val text = printed(frame.explain(mode))
        if (mode != "codegen") {
          assert(text.contains("StreamJoin"), s"$how, $mode")
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

  test("EXPLAIN and the progress of one that runs") {
    running(job(streams => picked(hourly("left_outer", s"$Hourly AND o.v < 100")(streams)))) { job =>
      job.feed(o("a", "10:00", 1), o("b", "10:00", 2), o("c", "10:00", 200), d("a", "10:30", 2))
      val first = job.execution.lastExecution.toString
      Seq("left_outer", "o.id = d.id", "o kept 1 hour", "d kept 0 seconds", "(o.v < 100)", "none yet")
        .foreach(word => assert(first.contains(word), word))
      job.feed(o("x", "11:45", 4), d("x", "11:30", 5))
      job.feed(o("late", "09:00", 6), d("late", "10:29", 7))
      val text = job.execution.lastExecution.toString
      assert(text.contains("o.t: 2024-06-01T11:45:00Z") && text.contains("d.t: 2024-06-01T11:30:00Z"))
      val all = job.streaming.recentProgress.flatMap(_.stateOperators)
      def sum(metric: String) = all.map(_.customMetrics.asScala.get(metric).fold(0L)(_.longValue)).sum
      assert(all.map(_.operatorName).toSet == Set("streamIntervalJoin"))
      assert(all.map(_.numRowsDroppedByWatermark).sum == 2)
      assert(sum("leftLateRows") == 1 && sum("rightLateRows") == 1)
      assert(sum("joinedRows") == 1)
      // c met nobody; b expired.
      assert(sum("paddedRows") == 2)
      // Both orders of 10:00 that were kept, and both deliveries.
      assert(sum("evictedRows") == 4)
      assert(job.state == ((1, 0)))
      assert(job.watermark("left") == "11:45" && job.watermark("right") == "11:30")
      val operator = job.operator
      assert(operator.numRowsTotal == job.state._1 + job.state._2)
      Seq("leftTimeMs", "rightTimeMs", "evictTimeMs", "loadTimeMs")
        .foreach(name => assert(operator.customMetrics.get(name).longValue >= 0, name))
      assert(operator.numShufflePartitions == 2 && operator.numStateStoreInstances == 2)
      assert(operator.memoryUsedBytes > 0)
      // As JSON, it is what a listener gets.
      assert(job.progress.json.contains("\"watermarkMs.left.t\""))
    }
  }
}
