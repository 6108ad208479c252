package org.apache.spark.sql.streamjoin.laterows

import java.io.File
import java.nio.file.{Files, Path}

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.catalyst.expressions.AttributeReference
import org.apache.spark.sql.functions.{col, expr}
import org.apache.spark.sql.streamjoin.{JoinTest, SparkTest}
import org.apache.spark.sql.types.StringType
import org.apache.spark.sql.{AnalysisException, DataFrame, Row}

import streamjoin.StreamJoin

/**
 * Late rows that are kept for the user, and what the progress says about watermarks that hold
 * others back.
 */
class LateRowsSuite extends AnyFunSuite with JoinTest {
  import JoinTest._

  private def table(job: Job): Seq[String] = StreamJoin
    .lateRows(job.streaming)
    .withColumn("late", expr("from_json(row, 'id STRING, t TIMESTAMP, v INT')"))
    .withColumn("watermark", expr("CAST(watermark AS TIMESTAMP)"))
    .select("batch", "join", "side", "input", "column", "watermark", "late.id", "late.t", "late.v")
    .collect()
    .map(text(_: Row))
    .sorted
    .toSeq

  private def files(job: Job): Seq[String] =
    new File(s"${job.checkpoint}/late-rows")
      .list()
      .filter(_.endsWith(".json"))
      .filterNot(_.startsWith("."))
      .toSeq

  private val keep = "spark.streamjoin.lateRows" -> "keep"

  test("a late row is kept once, with its batch, input, column and watermark") {
    withConf(keep) {
      running(job(hourly("left_outer"))) { job =>
        job.feed(o("a", "10:00", 1), d("a", "10:00", 1))
        // This batch uses W(o) = W(d) = 10:00. The next one drops what is below as late.
        job.feed(o("b", "10:00", 1), d("b", "10:00", 1))
        val batch = job.seen.last.id + 1
        // Rows below 10:00 are late on both sides.
        job.feed(o("late", "09:59:59.000001", 7), d("late", "09:00", 8), o("on time", "10:00", 9))
        assert(
          table(job) == Seq(
            s"$batch 1 left o t 10:00 late 09:59:59.000001 7",
            s"$batch 1 right d t 10:00 late 09:00 8"
          )
        )
      }
    }
  }

  test("late rows can be read before the first batch, also as a stream") {
    withConf(keep) {
      running(job(hourly())) { job =>
        assert(table(job).isEmpty)
        assert(StreamJoin.lateRowsStream(job.streaming).isStreaming)
      }
    }
  }

  test("input columns with the same name are told apart in late rows") {
    val columns = Seq("id", "t", "v", "v").map(AttributeReference(_, StringType)())
    val input = LateRows.Input("o", Seq(columns(1)), columns)
    assert(input.schema.fieldNames.toSeq == Seq("id", "t", "v", "v_2"))
    assert(input.columns == Seq("t"))
  }

  test("late rows keep microseconds, with and without a time zone, under any parser policy") {
    // The name of the folder must not be read as a pattern.
    val checkpoint = s"${newFolder()}/a [1] {b}"
    withConf(keep, "spark.sql.legacy.timeParserPolicy" -> "LEGACY") {
      val query: Streams => DataFrame = streams => {
        val orders = streams.marked("o").selectExpr("id", "t", "CAST(t AS TIMESTAMP_NTZ) AS n").as("o")
        orders.join(streams.marked("d"), expr(Hourly)).select("n", "d.v")
      }
      running(job(query, checkpoint = checkpoint)) { job =>
        job.feed(o("a", "10:00:00.000123"), d("a", "10:00"))
        job.feed(o("b", "10:00"), d("b", "10:00"))
        // The order of 9:00 is late: W(o) = 10:00, rounded down to a millisecond.
        job.feed(o("late", "09:00:00.000456"))
        val late = StreamJoin.lateRows(job.streaming)
        assert(late.select("watermark").collect().map(text(_: Row)).toSeq == Seq("2024-06-01T10:00:00Z"))
        val json = late.select("row").collect().head.getString(0)
        assert(json.contains(""""t":"2024-06-01T09:00:00.000456Z""""))
        assert(json.contains(""""n":"2024-06-01T09:00:00.000456""""))
      }
    }
  }

  test("a replayed batch keeps its late rows once") {
    withConf(keep) {
      running(job(hourly("left_outer"))) { job =>
        job.feed(o("a", "10:00", 1), d("a", "10:00", 1))
        job.feed(o("b", "10:00", 1), d("b", "10:00", 1))
        // Both rows are late: W(o) = W(d) = 10:00.
        job.feed(o("late", "09:00", 7), d("late", "09:00", 8))
        val (before, names) = (table(job), files(job).sorted)
        assert(before.size == 2)
        job.redoLast()
        assert(table(job) == before)
        assert(files(job).sorted == names)
      }
    }
  }

  test("a batch that runs again with another number of partitions keeps its late rows once") {
    withConf(keep, "spark.streamjoin.partitions" -> "4") {
      running(job(hourly("left_outer"))) { job =>
        job.feed(o("a", "10:00", 1), d("a", "10:00", 1))
        job.feed(o("b", "10:00", 1), d("b", "10:00", 1))
        // Rows before 10:00 are late.
        job.feed((0 until 8).map(n => o(s"late $n", "09:00", n)): _*)
        val before = table(job)
        assert(before.size == 8)
        assert(files(job).size > 1, "several tasks have had some")
        withConf("spark.streamjoin.partitions" -> "1")(job.redoLast())
        assert(table(job) == before)
        assert(files(job).size == 1)
      }
    }
  }

  test("late rows can be read as a stream") {
    withConf(keep) {
      running(job(hourly())) { job =>
        job.feed(o("a", "10:00", 1), d("a", "10:00", 1))
        job.feed(o("b", "10:00", 1), d("b", "10:00", 1))
        val dropped = StreamJoin.lateRowsStream(job.streaming)
        val reader = dropped.writeStream.format("memory").queryName("dropped").start()
        try {
          // From this batch on, rows before 10:00 are late: W(o) = W(d) = 10:00.
          job.feed(o("late", "09:00", 7))
          reader.processAllAvailable()
          job.feed(d("later", "08:00", 8), d("late", "09:00", 9))
          reader.processAllAvailable()
          val rows =
            spark.table("dropped").select(expr("get_json_object(row, '$.v')")).collect().map(_.getString(0))
          assert(rows.sorted.toSeq == Seq("7", "8", "9"))
        } finally reader.stop()
      }
    }
  }

  test("by default late rows are only counted, and the error says what to set to keep them") {
    running(job(hourly())) { job =>
      job.feed(o("a", "10:00", 1), d("a", "10:00", 1))
      val error = intercept[AnalysisException](table(job))
      assert(error.getCondition == "STREAMJOIN_LATE_ROWS_NOT_KEPT")
      assert(error.getMessage.contains("spark.streamjoin.lateRows=keep"))
      assert(!new File(s"${job.checkpoint}/late-rows").exists())
    }
  }

  private val limits = Seq(
    ("size", "spark.streamjoin.lateRows.maxBytes" -> "1200", 1 to 12),
    ("age", "spark.streamjoin.lateRows.maxAge" -> "1ms", 0 to 1)
  )

  for ((name, setting, left) <- SparkTest.part(limits, every = 2, from = 1))
    test(s"the late rows that are kept are bounded by $name") {
      withConf(keep, setting) {
        running(job(hourly())) { job =>
          job.feed(o("a", "10:00", 1), d("a", "10:00", 1))
          // From the next batch on, orders before 10:00 are late.
          job.feed(o("b", "10:00", 1), d("b", "10:00", 1))
          val unfinished = Path.of(job.checkpoint, "late-rows", ".batch-0.json.of-a-killed-task.tmp")
          Files.writeString(unfinished, "{")
          (0 until 30).foreach(n => job.feed(o("late", "09:00", n)))
          // Every ten batches old files are removed.
          while (job.seen.last.id % 10 != 1) job.feed(o("on time", "10:00", 0))
          assert(left.contains(files(job).size), files(job).toString)
          assert(Files.exists(unfinished) == (name == "size"))
        }
      }
    }

  // Which watermark holds others back.

  test("the progress shows how far each watermark lags and which one holds others back") {
    running(
      job(streams =>
        hourly()(streams)
          .join(
            streams.marked("r", "10 minutes"),
            expr("r.id = d.id AND r.t BETWEEN d.t AND d.t + INTERVAL 30 MINUTES")
          )
          .select(col("o.v"), col("o.t"))
      )
    ) { job =>
      // From now on W(o) = 10:00, W(d) = 12:00, W(r) = 8:50, ten minutes behind its newest row.
      job.feed(o("a", "10:00"), d("a", "12:00"), "r" -> row("a", "09:00"))
      job.feed(o("a", "10:00"), d("a", "12:00"), "r" -> row("a", "09:00"))
      def minutes(join: Int): Map[String, Long] = {
        val operator = job.progress.stateOperators.find(_.customMetrics.get("join") == join.toLong).get
        import scala.jdk.CollectionConverters._
        operator.customMetrics.asScala.collect {
          case (name, ms) if name.startsWith("lagMs") || name.startsWith("holdsBackMs") => name -> ms / 60000
        }.toMap
      }
      assert(
        minutes(1) == Map("lagMs.left.t" -> 0, "lagMs.right.t" -> 0, "holdsBackMs.left.t" -> 120)
      )
      // Above the first join, deliveries can be as old as orders that can still come, orders at
      // most an hour older.
      assert(
        minutes(2) == Map(
          "lagMs.left.o.t" -> 0,
          "lagMs.left.d.t" -> 120,
          "lagMs.right.t" -> 10,
          "holdsBackMs.right.t" -> 70
        )
      )
    }
  }
}
