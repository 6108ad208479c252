package org.apache.spark.sql.streamjoin.joins.temporal

import java.io.ByteArrayOutputStream
import java.nio.file.{Files, Path}

import scala.jdk.CollectionConverters._
import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.functions._
import org.apache.spark.sql.streaming.StreamingQueryException
import org.apache.spark.sql.streamjoin.{Frames, JoinTest, SparkTest}
import org.apache.spark.sql.{AnalysisException, DataFrame, Row}

/** Facts are joined with the versions that were valid at their event times. */
class TemporalJoinSuite extends AnyFunSuite with TemporalTest {
  import JoinTest._

  test("rows are emitted in event-time order over all tasks and batches, none below the watermark") {
    val random = new Random(7)
    val query = (streams: Streams) => temporal()(streams).selectExpr("o.t", "o.v AS a", "d.v AS b")
    running(job(query)) { job =>
      val minutes = random.shuffle((1 to 59).toList)
      val facts = minutes.map(minute => o(s"k${minute % 7}", f"10:$minute%02d", minute))
      val changes = (0 until 7).map(key => d(s"k$key", f"10:${key * 2}%02d", 100 + key))
      val out = withoutEnd(
        Seq(facts.take(30) ++ changes, facts.drop(30), end("11:00"), end("11:01"))
          .flatMap(rows => job.batches(rows: _*))
          .flatMap(_.rows)
      )
      val late = job.dropped
      assert(out == out.sorted, "times sort like their text")
      assert(out.size == 59 - late)
      assert(out.count(_.endsWith("-")) == out.count { row =>
        val minute = row.split(' ')(1).toInt
        minute < minute % 7 * 2
      })
    }
  }

  /** A version of a second table. */
  private def e(id: String, time: String, v: Int) = "e" -> row(id, time, v)

  test("a stream can be joined with itself, told apart by aliases alone") {
    def closest(left: DataFrame, right: DataFrame) =
      Frames.asof(left.join(right, expr("o.id = d.id"), "left_outer"), expr("o.t > d.t"), None)
    def valid(left: DataFrame, right: DataFrame) =
      Frames.temporal(left.join(right, expr("o.id = d.id"), "left_outer"))
    val joins = Seq[((DataFrame, DataFrame) => DataFrame, Seq[String])](
      (closest, Seq("2 -", "3 2", "4 3", "7 -")),
      (valid, Seq("2 2", "3 3", "4 4", "7 7"))
    )
    val pairs = for (inputs <- selves; join <- joins) yield (inputs, join)
    for ((inputs, (join, expected)) <- SparkTest.part(pairs, every = 5))
      running(job(streams => join.tupled(inputs(streams)).selectExpr("o.v AS a", "d.v AS b"))) { job =>
        // The watermark is 10:10: two rows wait, also after the restart.
        job.feed(o("a", "10:00", 2), o("a", "10:10", 3), o("b", "10:10", 7))
        job.restart()
        // The watermark is 11:00: the rows before it are emitted.
        job.feed(o("a", "10:20", 4), o("end", "11:00", 99))
        job.feed(o("end", "11:01", 99))
        assert(withoutClosingRows(job.seen.flatMap(_.rows), "99").sorted == expected)
      }
  }

  test("between versions of one time the columns decide, not whether one is an insert or an update") {
    val operation = "CASE WHEN v < 0 THEN 'delete' WHEN v < 10 THEN 'update' ELSE 'insert' END"
    running(job(values(temporal(operation = operation)))) { job =>
      job.feed(d("a", "10:00", 13), d("a", "10:00", 5), o("a", "10:01", 1))
      job.feed(d("b", "10:00", -1), d("b", "10:00", 4), o("b", "10:01", 2))
      assert(ended(job) == Seq("1 13", "2 4"))
    }
  }

  test("SQL: both sides may have the same column names, and a condition may be on the versions alone") {
    val query = (streams: Streams) => {
      Seq("o", "d", "e").foreach(name => streams.marked(name).createOrReplaceTempView(name))
      spark.sql("""
        SELECT o.v AS a, d.v AS b, e.v AS c
        FROM o LEFT JOIN d FOR SYSTEM_TIME AS OF o.t AS d ON o.id = d.id AND d.v BETWEEN 2 AND 2
        LEFT JOIN e FOR SYSTEM_TIME AS OF o.t AS e ON e.id = o.id AND e.v = e.v""")
    }
    running(job(query)) { job =>
      job.feed(
        d("a", "10:00", 1),
        d("a", "10:04", 2),
        e("a", "10:01", 7),
        o("a", "10:02", 3),
        o("a", "10:05", 4)
      )
      (1 to 4).foreach(minute => job.feed(end(s"11:0$minute") :+ e("past", s"11:0$minute", 999): _*))
      assert(withoutEnd(job.seen.flatMap(_.rows)).sorted == Seq("3 - 7", "4 2 7"))
    }
  }

  test("SQL: the time column of the left input may have a dot in its name") {
    val query = (streams: Streams) => {
      Seq("o", "d").foreach(name => streams.marked(name).createOrReplaceTempView(name))
      spark.sql("""
        SELECT o.v AS a, d.v AS b FROM (SELECT id, t AS `o.at`, v FROM o) AS o
        JOIN d FOR SYSTEM_TIME AS OF o.`o.at` AS d ON o.id = d.id""")
    }
    running(job(query)) { job =>
      job.feed(d("a", "10:00", 1), d("a", "10:04", 2), o("a", "10:02", 3), o("a", "10:05", 4))
      assert(ended(job) == Seq("3 1", "4 2"))
    }
  }

  test("in a text condition l and r are the inputs, even if an input has such aliases inside") {
    val query = (streams: Streams) => {
      val facts = streams.marked("o").as("l").join(spark.range(1).as("r")).selectExpr("l.id", "l.t", "l.v")
      val joined = facts.join(streams.marked("d").toDF("key", "since", "w"), expr("id = key"))
      Frames.asof(joined, "l.t >= r.since", None).selectExpr("v", "w")
    }
    running(job(query)) { job =>
      job.feed(d("a", "10:00", 1), o("a", "10:02", 3))
      assert(ended(job) == Seq("3 1"))
    }
  }

  test("a windowed aggregation above counts each row once, in its window") {
    val query = (streams: Streams) =>
      temporal("inner")(streams)
        .groupBy(window(col("o.t"), "10 minutes"))
        .agg(sum("d.v").as("total"))
        .selectExpr("window.start AS t", "total")
    running(job(query)) { job =>
      job.feed(d("a", "10:00", 1), d("b", "10:00", 10), o("a", "10:01", 0))
      job.feed(o("a", "10:09", 0), o("b", "10:05", 0), d("a", "10:08", 2))
      // W(o) = 10:15, W(d) = 10:20: rows before 10:15 are emitted, the window of 10:00 is complete.
      job.feed(o("a", "10:15", 0), d("a", "10:20", 4))
      // Both watermarks are 11:00: the row of 10:15 is emitted, its window is complete.
      assert(ended(job, "11:00", "12:00") == Seq("10:00 13", "10:10 2"))
    }
  }

  test("an interval join above uses the event time of the facts") {
    val query = (streams: Streams) =>
      temporal()(streams)
        .join(
          streams.marked("r"),
          expr("r.id = o.id AND r.t BETWEEN o.t AND o.t + INTERVAL 30 MINUTES"),
          "left_outer"
        )
        .selectExpr("o.v AS a", "d.v AS b", "r.v AS c")
    running(job(query)) { job =>
      job.feed(d("a", "10:00", 5), o("a", "10:10", 1), o("b", "10:10", 2), "r" -> row("a", "10:20", 7))
      (12 to 15).foreach(hour => job.feed(end(s"$hour:00") :+ ("r" -> row("x", s"$hour:00", 9)): _*))
      assert(withoutEnd(job.seen.flatMap(_.rows)).sorted == Seq("1 5 7", "2 - -"))
      val operators = job.progress.stateOperators.map(_.operatorName).toSet
      assert(operators == Set("streamTemporalJoin", "streamIntervalJoin"))
    }
  }

  test("above an as-of join with a tolerance both times have a watermark, without one only the left") {
    def counted(tolerance: Option[String])(streams: Streams): DataFrame =
      asof("inner", tolerance = tolerance)(streams)
        .groupBy(window(col("d.t"), "10 minutes"))
        .count()
        .selectExpr("window.start AS t", "count")
    running(job(counted(Some("30 minutes")))) { job =>
      job.feed(d("a", "10:00", 1), o("a", "10:05", 2), o("a", "10:25", 3), o("a", "10:31", 4))
      // Rows before 12:00 are emitted. Later ones match no d.t before 11:30: the window is over.
      assert(ended(job, "12:00", "13:00") == Seq("10:00 2"))
    }
    assert(rejection(counted(None)(newStreams())).getCondition == "STREAMJOIN_ORDER_WATERMARK")
  }

  test("facts can look up two tables in turn, each with its own watermark") {
    val query = (streams: Streams) => {
      val other = versions(streams.marked("e")).as("e")
      val first = temporal()(streams).selectExpr("o.id AS id", "o.t AS t", "o.v AS a", "d.v AS b").as("f")
      Frames
        .temporal(first.join(other, expr("f.id = e.id"), "left_outer"), op = Some("op"))
        .selectExpr("f.a", "f.b", "e.v AS c")
    }
    running(job(query)) { job =>
      job.feed(
        d("a", "10:00", 1),
        e("a", "10:00", 2),
        e("x", "10:10", 0),
        o("a", "10:05", 3),
        o("a", "10:15", 4)
      )
      job.feed(end("11:00"): _*)
      assert(job.seen.flatMap(_.rows).toSeq == Seq("3 1 2"), "the watermark of the second table is 10:10")
      job.restart()
      // W(e) = 11:00: the row of 10:15 is emitted, after the deletion of 10:12.
      job.feed(e("a", "10:12", -1), e("a", "11:00", 9))
      job.feed(end("12:00"): _*)
      job.feed(end("12:00"): _*)
      assert(job.seen.flatMap(_.rows).toSeq.take(2) == Seq("3 1 2", "4 1 -"))
    }
  }

  test("operations have several spellings, and pre-images of updates are skipped") {
    val names = Seq("c", "r", " U ", "d", "insert", "Delete", "update_preimage", "update_postimage", "i")
    val spelled = names.zipWithIndex.map { case (name, at) => s"WHEN $at THEN '$name'" }.mkString(" ")
    running(job(values(temporal(operation = s"CASE v $spelled END")))) { job =>
      val changes = names.indices.map(at => d("a", s"10:0$at", at))
      val facts = names.indices.map(at => o("a", s"10:0$at", 10 + at))
      job.feed(changes ++ facts: _*)
      // Both watermarks are 10:30: the last row, of 10:08, is emitted too.
      job.feed(end("10:30").take(1) :+ d("past", "10:30", 0): _*)
      assert(
        job.seen.flatMap(_.rows).toSeq ==
          Seq("10 0", "11 1", "12 2", "13 -", "14 4", "15 -", "16 -", "17 7", "18 8")
      )
    }
  }

  test("an unknown operation fails the query, and nothing of the batch is committed") {
    for ((operation, seen) <- Seq("'upsert'" -> "\"upsert\"", "CAST(NULL AS STRING)" -> "null"))
      running(job(values(temporal(operation = operation)))) { job =>
        val error = intercept[StreamingQueryException](job.feed(d("a", "10:00", 1)))
        assert(SparkTest.errorClass(error).contains("STREAMJOIN_OPERATION"))
        assert(SparkTest.messages(error).exists(_.contains(seen)))
        assert(job.seen.isEmpty)
      }
  }

  test("a delete without a time fails the query") {
    running(job(values(temporal()))) { job =>
      val error = intercept[StreamingQueryException](job.feed(d("a", null, 1), d("a", null, -1)))
      assert(SparkTest.errorClass(error).contains("STREAMJOIN_DELETE_WITHOUT_TIME"))
      assert(SparkTest.messages(error).exists(_.contains("its t is null")))
    }
  }

  test("of versions with the same time the largest row counts, whichever columns are selected") {
    val queries = Seq[(Streams => DataFrame, String)](
      (temporal()(_).selectExpr("o.v AS a", "d.v AS b"), "0 4"),
      (temporal()(_).selectExpr("o.v AS a", "d.v % 2 AS b"), "0 0"),
      (temporal()(_).selectExpr("o.v AS a", "d.op AS b"), "0 insert")
    )
    val cases = for (query <- queries; order <- Seq(Seq(1, 2, 3, 4), Seq(4, 3, 2, 1))) yield (query, order)
    for (((query, expected), order) <- SparkTest.part(cases, every = 3))
      running(job(query)) { job =>
        job.feed(order.map(v => d("a", "10:00", v)) :+ o("a", "10:00", 0): _*)
        // Both watermarks were 10:00. Now they are 11:00, and the row of 10:00 is emitted.
        assert(ended(job, "11:00") == Seq(expected))
      }
  }

  test("of versions with the same time the last by order= counts, even if it is a delete") {
    // The place in the log is `abs(v)`; a row with a negative `v` is a delete.
    def placed(order: String)(streams: Streams): DataFrame = {
      val log = versions(streams.marked("d")).selectExpr("*", "abs(v) AS place", "map(v, v) AS odd").as("d")
      val joined = streams.marked("o").join(log, expr("o.id = d.id"), "left_outer")
      Frames.temporal(joined, op = Some("op"), order = Some(order))
    }
    val logs = Seq(Seq(1, -2), Seq(-1, 2), Seq(3, 1, -2)).flatMap(log => Seq(log, log.reverse).map(log -> _))
    for ((log, comes) <- SparkTest.part(logs, every = 3))
      running(job(values(placed("place")))) { job =>
        job.feed(comes.map(v => d("a", "10:00", v)) :+ o("a", "10:00", 0): _*)
        val last = log.maxBy(math.abs)
        assert(ended(job, "11:00") == Seq(s"0 ${if (last < 0) "-" else last}"))
      }
    val rejected = Seq("odd" -> "STREAMJOIN_COLUMN.ORDER_TYPE", "nothing" -> "STREAMJOIN_COLUMN.UNKNOWN")
    for ((order, condition) <- rejected) {
      val error = intercept[AnalysisException](placed(order)(newStreams()))
      assert(error.getCondition == condition)
      assert(error.getMessage.contains(order))
    }
  }

  test("filters on facts are pushed below the join, filters on versions do not change the match") {
    val query = (streams: Streams) =>
      temporal()(streams).where("o.v > 1 AND d.v <> 3").selectExpr("o.v AS a", "d.v AS b")
    running(job(query)) { job =>
      // W(d) = 10:00: nothing is emitted yet.
      job.feed(d("a", "10:00", 2), o("a", "10:05", 1), o("a", "10:05", 2), o("a", "10:15", 3))
      assert(job.metric("leftRowsInState") == 2, "the filtered fact is not kept")
      // W(d) = 10:10: the row of 10:05 is emitted.
      job.feed(d("a", "10:10", 3))
      assert(ended(job, "11:00") == Seq("2 2"))
    }
  }

  test("a condition may use the time of the batch") {
    val on = "o.id = d.id AND d.v < year(now()) AND o.t < current_timestamp()"
    val queries = Seq(temporal(on = s"$on AND current_date() > DATE'2020-01-01'"), asof(on = on))
    for (query <- SparkTest.part(queries, every = 2))
      running(job(values(query))) { job =>
        job.feed(d("a", "10:00", 1), d("b", "10:00", 9999), o("a", "10:05", 1), o("b", "10:05", 2))
        job.restart()
        assert(ended(job) == Seq("1 1", "2 -"))
      }
  }

  test("keys match across types, for -0.0 and NaN, and by the collation of strings") {
    def running1(facts: String, changes: String)(rows: (String, Row)*) =
      running(job { streams =>
        val left = streams.marked("o").withColumn("k", expr(facts)).as("o")
        val right = versions(streams.marked("d")).withColumn("key", expr(changes)).as("d")
        Frames
          .temporal(left.join(right, expr("o.k = d.key"), "left_outer"), key = Seq("key"), op = Some("op"))
          .selectExpr("o.v AS a", "d.v AS b")
      }) { job =>
        job.feed(rows: _*)
        job.feed(o("1", "11:00", 999), d("2", "11:00", 999))
        job.seen.flatMap(_.rows).sorted.toSeq
      }
    val numbers = Seq(d("7", "10:00", 5), o("7", "10:10", 1), o("8", "10:10", 2))
    assert(running1("CAST(id AS BIGINT)", "CAST(id AS INT)")(numbers: _*) == Seq("1 5", "2 -"))
    assert(running1("CAST(id AS INT)", "CAST(id AS BIGINT)")(numbers: _*) == Seq("1 5", "2 -"))
    assert(running1("CAST(id AS BIGINT) + 1", "CAST(id AS BIGINT)")(numbers: _*) == Seq("1 -", "2 -"))
    val zeros = Seq(d("0.0", "10:00", 5), o("-0.0", "10:10", 1), d("NaN", "10:00", 6), o("NaN", "10:10", 2))
    val double = "CAST(id AS DOUBLE)"
    val nested = Seq(double, s"struct($double AS x, struct($double AS z) AS y)", s"array($double)")
    for (of <- SparkTest.part(nested, every = 3, from = 1))
      assert(running1(of, of)(zeros: _*) == Seq("1 5", "2 6"), of)
    val texts = Seq(d("Abc", "10:00", 5), o("aBC", "10:10", 1), o("abd", "10:10", 2))
    val lower = "id COLLATE UTF8_LCASE"
    assert(running1(lower, lower)(texts: _*) == Seq("1 5", "2 -"))
  }

  test("a join on column names works, and so does a stream with itself") {
    running(job { streams =>
      val joined = streams.marked("o").join(versions(streams.marked("d")), Seq("id"), "left_outer")
      Frames.temporal(joined, op = Some("op")).selectExpr("id", "o.v AS a", "d.v AS b")
    }) { job =>
      job.feed(d("a", "10:00", 5), o("a", "10:10", 1), o("b", "10:10", 2))
      assert(ended(job, "11:00") == Seq("a 1 5", "b 2 -"))
    }
    running(job { streams =>
      val stream = streams.raw("o").withWatermark("t", "0 seconds")
      Frames
        .asof(stream.as("l").join(stream.as("r"), expr("l.id = r.id"), "left_outer"), expr("l.t > r.t"), None)
        .selectExpr("l.v AS a", "r.v AS b")
    }) { job =>
      job.feed(o("a", "10:00", 1), o("a", "10:10", 2), o("b", "10:20", 3), o("a", "10:30", 4))
      // The watermark is 11:00: the row of 10:30 is emitted too.
      job.feed(o("z", "11:00", 5))
      assert(job.seen.flatMap(_.rows).sorted.toSeq == Seq("1 -", "2 1", "3 -", "4 2"))
    }
  }

  test("the cap on rows counts waiting rows, not the table") {
    withConf("spark.streamjoin.maxAccumulatedRecords" -> "9") {
      running(job(values(temporal()))) { job =>
        (1 to 2).foreach(_ => job.feed(end("09:10"): _*))
        // Rows of the table do not count.
        job.feed((1 to 40).map(at => d(s"k$at", "09:00", at)): _*)
        job.feed(end("10:00"): _*)
        job.feed(end("10:00"): _*)
        assert(job.metric("keysWithVersion") == 41)
        val error = intercept[StreamingQueryException] {
          // W(d) = 10:00: all of these wait.
          job.feed((1 to 8).map(at => o("a", s"10:0$at", at)): _*)
          job.feed(d("a", "10:00", 9))
        }
        assert(SparkTest.errorClass(error).contains("STREAMJOIN_MAX_ACCUMULATED_RECORDS"))
      }
    }
  }

  test("EXPLAIN, progress and the checkpoint describe the join") {
    running(job(values(temporal(history = Some("1 day"))))) { job =>
      job.feed(d("a", "10:00", 1), d("b", "10:00", -1), o("a", "10:10", 2))
      // Both watermarks are 10:20: the row of 10:10 is emitted, those of 10:20 wait.
      job.feed(d("a", "10:20", 3), o("a", "10:20", 4))
      job.feed(o("a", "10:20", 5))
      val plan = job.execution.lastExecution.toString
      Seq(
        "StreamTemporalJoin left_outer",
        "backward from o.t to d.t, history 1 day",
        "equality (left.id = right.id)",
        "no other condition",
        "d kept until the next of their key",
        "o.t: 2024-06-01T10:20:00Z; d.t: 2024-06-01T10:20:00Z",
        "routing by hash of the equality over 2 tasks, one state store each"
      ).foreach(words => assert(plan.contains(words), words))
      assert(job.watermark("left") == "10:20")
      assert(job.watermark("right") == "10:20")
      val figures = job.streaming.recentProgress.flatMap(_.stateOperators)
      def sum(name: String) = figures.map(_.customMetrics.asScala.get(name).fold(0L)(_.longValue)).sum
      checkFigures(job.operator, TemporalKind)
      assert(sum("joinedRows") == 1)
      assert(sum("paddedRows") == 0)
      assert(job.metric("payloadBytes") > 0)
      assert(job.metric("indexBytes") > 0)
      val written = Files.readString(Path.of(job.checkpoint, "stream-joins", "0"))
      val described = Seq("\"direction\":\"backward\"", "\"history_micros\":\"86400000000\"")
      (Seq("temporal_join", "left_outer", "(left.id = right.id)") ++ described)
        .foreach(words => assert(written.contains(words), written))
    }
    val explained = asof(condition = "o.t < d.t", tolerance = Some("90 seconds"))(newStreams())
    val plan = new ByteArrayOutputStream
    Console.withOut(plan)(explained.explain())
    val words = "forward from o.t to d.t, not at the same time, within 1 minute 30 seconds"
    assert(plan.toString("UTF-8").contains(words))
  }

  // Keys.

  private val nullSafe = Seq[(String, Streams => DataFrame)](
    "temporal" -> temporal(on = "o.id <=> d.id"),
    "temporal with a history" -> temporal(on = "d.id <=> o.id", history = Some("1 hour")),
    "as-of" -> asof(on = "o.id <=> d.id AND d.v > 0"),
    "as-of with a tolerance" -> asof(on = "o.id <=> d.id AND o.v = o.v", tolerance = Some("1 hour")),
    "as-of on two keys" -> asof(on = "o.id <=> d.id AND o.v / 100 = d.v / 100")
  )

  test("null keys match under <=>, and an empty text is another key") {
    for ((name, query) <- SparkTest.part(nullSafe, every = 3)) withClue(name) {
      running(job(values(query))) { job =>
        job.feed(d(null, "10:00", 1), d("", "10:01", 2), d("a", "10:02", 3))
        job.restart()
        val on = if (name.contains("two")) Seq(1, 2, 3, 4) else Seq(11, 12, 13, 14)
        job.feed(
          o(null, "10:05", on(0)),
          o("", "10:05", on(1)),
          o("a", "10:05", on(2)),
          o("b", "10:05", on(3))
        )
        val expected =
          if (name.contains("two")) Seq("1 1", "2 2", "3 3", "4 -")
          else Seq("11 1", "12 2", "13 3", "14 -")
        assert(ended(job) == expected)
      }
    }
  }

  test("a key may be a field of a column") {
    def query(on: String, key: String*): Streams => DataFrame = streams => {
      val right = streams.marked("d").selectExpr("struct(id, v) AS row", "t").as("d")
      Frames
        .temporal(streams.marked("o").join(right, expr(on), "left_outer"), key = key)
        .selectExpr("o.v AS a", "d.row.v AS b")
    }
    val queries = Seq(query("o.id = d.row.id", "row.id"), query("d.row.id = o.id", "d.row.ID"))
    for (query <- SparkTest.part(queries, every = 2)) running(job(query)) { job =>
      job.feed(d("a", "10:00", 1), d("a", "10:10", 2), d("b", "10:05", 3))
      job.feed(o("a", "10:05", 11), o("a", "10:15", 12), o("b", "10:05", 13), o("c", "10:05", 14))
      assert(ended(job) == Seq("11 1", "12 2", "13 3", "14 -"))
    }
    val error = intercept[AnalysisException](query("o.id = d.row.id", "row.v")(newStreams()))
    assert(error.getMessage.contains("has no equality for row.v"), error.getMessage)
  }

  // Right rows of one time.

  test("of several right rows with one time, the one with the greatest values matches") {
    val rows = Seq(d("a", "10:05", 5), d("a", "10:05", 7), d("a", "10:05", 6))
    def closest(direction: String)(streams: Streams) = Frames.inDirection(
      streams.marked("o").join(streams.marked("d"), expr("o.id = d.id"), "left_outer"),
      direction,
      allowsExact = true,
      Some("10 minutes"),
      ordered = true
    )
    // The left row before, at and after the time, as its direction allows.
    val queries = Seq[(String, Streams => DataFrame, Seq[String])](
      ("as-of", asof(), Seq("10:05", "10:06")),
      ("backward", closest("backward"), Seq("10:05", "10:06")),
      ("forward", closest("forward"), Seq("10:04", "10:05")),
      ("nearest", closest("nearest"), Seq("10:04", "10:06")),
      ("temporal", temporal(), Seq("10:05"))
    )
    val cases = for (query <- queries; order <- Seq(rows, rows.reverse)) yield (query, order)
    for (((name, query, times), order) <- SparkTest.part(cases, every = 3))
      withClue(name) {
        running(job(values(query))) { job =>
          val facts = times.zipWithIndex.map { case (time, at) => o("a", time, at) }
          // In one batch, or in two that state lies between.
          if (order == rows) job.feed(order ++ facts: _*)
          else {
            job.feed(order.take(2): _*)
            job.feed(order.drop(2) ++ facts: _*)
          }
          assert(ended(job) == times.indices.map(at => s"$at 7"))
        }
      }
  }
}
