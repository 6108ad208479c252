package org.apache.spark.sql.streamjoin.observe.read

import java.nio.file.{Files, Path}
import java.sql.Timestamp
import java.time.Instant

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.execution.streaming.runtime.MemoryStream
import org.apache.spark.sql.functions.expr
import org.apache.spark.sql.streaming.{StreamingQuery, Trigger}
import org.apache.spark.sql.streamjoin.JoinTest
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.{DataFrame, Encoders, Row}

/**
 * Why a join has no rows: each cause has a hint that names it and the line to write, and no other
 * hint comes with it.
 */
class HintsSuite extends AnyFunSuite with JoinTest {
  import JoinTest._

  private type Fed = (String, Row)

  /** Each hint with its line of the plan. */
  private def hints(query: StreamingQuery): Seq[(String, String)] = spark
    .sql(s"SELECT trim(plan), explode(hints) FROM sj_explain_analyze('${query.id}')")
    .collect()
    .map(row => row.getString(0) -> row.getString(1))
    .toSeq

  /** The only hint after some batches. */
  private def hint(query: Streams => DataFrame)(batches: Seq[Fed]*): (String, String) =
    running(job(query)) { job =>
      batches.foreach(batch => job.feed(batch: _*))
      only(job.streaming)
    }

  private def only(query: StreamingQuery): (String, String) = hints(query) match {
    case Seq(one) => one
    case other => fail(s"one hint was expected, and there are ${other.mkString("\n")}")
  }

  private def says(hint: (String, String), line: String, words: String*): Unit = {
    assert(hint._1 == line)
    words.foreach(words => assert(hint._2.contains(words)))
  }

  private def many(count: Int, each: Int => Fed): Seq[Fed] = (0 until count).map(each)

  /** So many minutes after 10:00. */
  private def clock(minutes: Int): String = f"${10 + minutes / 60}%02d:${minutes % 60}%02d"

  private def orders(count: Int = 20, from: Int = 0, id: Int => String = n => s"a$n") =
    many(count, n => o(id(n), clock(from + n), n))
  private def deliveries(count: Int = 20, from: Int = 20, id: Int => String = n => s"a$n") =
    many(count, n => d(id(n), clock(from + n), n))

  // Rows that are lost on the way.

  test("every event time is null") {
    val batch = orders() ++ many(20, n => d(s"a$n", null, n))
    Seq("inner", "left_outer").foreach { how =>
      says(
        hint(hourly(how))(batch, batch),
        "right: d",
        "All 40 rows of d have a null t",
        "to_timestamp(t, '<pattern>') before withWatermark"
      )
    }
  }

  test("every key is null: removed by Spark's filter, or kept because its side is preserved") {
    val batch = orders() ++ deliveries(id = _ => null)
    says(hint(hourly())(batch), "right: d", "All 20 rows of d have a null id", "the reader's schema")
    // As with Kafka: the key is a field of a text.
    val parsed = (streams: Streams) => {
      val rows = streams.raw("d").selectExpr("from_json(id, 'id STRING').id AS id", "t", "v")
      streams.marked("o").join(rows.withWatermark("t", "0 seconds").as("d"), expr(Hourly))
    }
    val texts = orders() ++ deliveries(id = n => s"{\"key\": \"a$n\"}")
    says(
      hint(parsed)(texts),
      "right: d",
      "All 20 rows of d have a null id, and a row without it never matches"
    )
    says(
      hint(hourly("full_outer"))(batch, orders(from = 20)),
      "right: d",
      "All 20 rows of d have a null id"
    )
  }

  test("a filter removes all rows, below and above the mark") {
    val below =
      (streams: Streams) => streams.marked("o").join(streams.marked("d").where("v > 1000"), expr(Hourly))
    says(
      hint(below)(orders() ++ deliveries(), orders()),
      "right: d",
      "The filter v > 1000 AND id IS NOT NULL removed all 20 rows of d",
      "compare it with the actual values"
    )
    val above =
      (streams: Streams) => streams.marked("o").join(streams.marked("d").where("hour(t) = 3"), expr(Hourly))
    says(hint(above)(orders() ++ deliveries()), "right: d", "The filter hour(t", "removed all 20 rows of d")
  }

  test("a filter that the reader of the files applies is named, and still applied there") {
    val folder = Files.createTempDirectory("streamjoin-hints")
    def write(name: String, rows: Seq[String]): Path = {
      val input = Files.createDirectories(folder.resolve(name))
      Files.writeString(input.resolve("0.json"), rows.mkString("\n"))
    }
    def stream(name: String) = spark.readStream
      .schema(Events)
      .json(folder.resolve(name).toString)
      .withWatermark("t", "0 seconds")
      .as(name)
    write("o", (0 until 20).map(n => s"""{"id":"a$n","t":"2024-06-01T10:00:00Z","v":1}"""))
    write("d", (0 until 20).map(n => s"""{"id":"a$n","t":"2024-06-01T10:00:00Z","v":1}"""))
    val query = stream("o")
      .join(stream("d").where("v > 1000"), expr(Hourly))
      .writeStream
      .format("noop")
      .option("checkpointLocation", newFolder())
      .start()
    try {
      query.processAllAvailable()
      val one = only(query)
      says(
        one,
        "right: d",
        "Files of d were read (1)",
        "the reader itself skips rows without v > 1000 AND id IS NOT NULL"
      )
    } finally query.stop()
  }

  test("a source without rows, and only that, is told to be idle") {
    running(job()) { job =>
      job.feed(orders() ++ deliveries(): _*)
      job.restart()
      (1 to 9).foreach(n => job.feed(o(s"b$n", clock(30 + n))))
      assert(hints(job.streaming).isEmpty, "others had rows in few batches only")
      job.feed(o("c", clock(40)))
      val one = only(job.streaming)
      says(
        one,
        "right: d",
        "The source of d has had no row since the query was started",
        "rows wait for its watermark",
        "write sj.idle_after(d, \"5 minutes\") before the join"
      )
    }
  }

  testLong("a source without rows that nothing waits for") {
    running(job()) { job =>
      job.feed(many(1, _ => d("x", "23:00")): _*)
      job.restart()
      // Orders expire in their own batch.
      (0 until 10).foreach(n => job.feed(o(s"b$n", clock(n))))
      val one = only(job.streaming)
      says(one, "right: d", "while others had rows in 10 batches")
      assert(!one._2.contains("idle_after"))
    }
  }

  // Rows that come and do not match.

  test("times never overlap") {
    says(
      hint(hourly())(orders() ++ deliveries(from = 560), orders(from = 30, id = n => s"b$n")),
      "1 inner interval join",
      "20 keys occur on both sides, but d.t is about 9 hours later than o.t, and the condition allows 0 to 1 hour",
      "a local time that was read as UTC, write to_utc_timestamp(<column>, '<zone>') before withWatermark",
      "widen the bound: d.t <= o.t + INTERVAL"
    )
    says(
      hint(hourly())(orders(from = 300) ++ deliveries(from = 20)),
      "1 inner interval join",
      "d.t is about 4 hours earlier than o.t",
      "widen the bound: d.t >= o.t - INTERVAL"
    )
    val now = Instant.now
    def inMinutes(name: String, minutes: Int)(n: Int): Fed =
      name -> Row(s"a$n", Timestamp.from(now.plusSeconds(60L * minutes - n)), n)
    val local = hint(hourly())(many(20, inMinutes("o", -1)) ++ many(20, inMinutes("d", 120)))
    says(local, "1 inner interval join", "d.t is in the future. If it is a local time that was read as UTC")
    assert(!local._2.contains("widen the bound"))
  }

  test("a bound is reversed") {
    val reversed = "o.id = d.id AND d.t BETWEEN o.t - INTERVAL 1 HOUR AND o.t"
    says(
      hint(hourly(condition = reversed))(orders() ++ deliveries()),
      "1 inner interval join",
      "d.t is about 20 minutes later than o.t, and the condition allows -1 hour to 0",
      "The bound is reversed: write d.t >= o.t AND d.t <= o.t + INTERVAL '3600' SECOND, or in sj.join",
      "within=(\"0 seconds\", \"1 hour\")."
    )
  }

  test("milliseconds are read as seconds, or seconds as milliseconds") {
    def changed(by: Double) = deliveries().map { case (name, row) =>
      name -> Row(row(0), new Timestamp((row.getTimestamp(1).getTime * by).toLong), row(2))
    }
    says(hint(hourly())(orders() ++ changed(1000)), "1 inner interval join", "write timestamp_millis(…)")
    says(
      hint(hourly("left_outer"))(orders() ++ changed(0.001)),
      "1 left outer interval join",
      "write timestamp_seconds(…)"
    )
  }

  test("keys differ in blanks, case or leading zeros; values are shown only where they may be") {
    def differing(id: Int => String) = hint(hourly())(orders(id = n => s"a$n") ++ deliveries(id = id))
    says(
      differing(n => s"a$n  "),
      "1 inner interval join",
      "20 keys of both differ only in trailing blanks.",
      "write rtrim(id) for id in d."
    )
    says(
      differing(n => s"A$n"),
      "1 inner interval join",
      "only in upper and lower case.",
      "write lower(id) for id in d."
    )
    withConf("spark.streamjoin.ui.showKeys" -> "true") {
      says(
        differing(n => s" a$n"),
        "1 inner interval join",
        "only in blanks, as '",
        "write trim(id) for id in d."
      )
    }
    says(
      hint(hourly())(orders(id = n => s"$n") ++ deliveries(id = n => f"$n%05d")),
      "1 inner interval join",
      "20 keys of both differ only in leading zeros",
      "write CAST(id AS BIGINT) for id in o and CAST(id AS BIGINT) for id in d."
    )
  }

  test("no key of one input is among those of the other") {
    says(
      hint(hourly())(orders(90) ++ deliveries(30, from = 60, id = n => s"x$n")),
      "1 inner interval join",
      "they have no key in common",
      "the join compares the right columns"
    )
  }

  test("an aggregation above waits for its own window") {
    says(
      hint(streams => hourly()(streams).groupBy(expr("window(o.t, '6 hours')")).count())(
        orders() ++ deliveries(),
        orders(from = 20) ++ deliveries(from = 40)
      ),
      "1 inner interval join",
      "and the aggregation above it has emitted none yet",
      "it keeps 1 group, and emits a group once the watermark after the join is later than",
      "That watermark is 2024-06-01T",
      "held back by "
    )
  }

  test("rows without a match wait for a delay of a week") {
    val query = (streams: Streams) =>
      streams.marked("o").join(streams.marked("d", "7 days"), expr(Hourly), "left_outer")
    says(
      hint(query)(orders() ++ deliveries(10), orders(from = 20, id = n => s"b$n"), Seq(o("c", clock(60)))),
      "left: o",
      "Rows of o without a match are emitted 7 days after their time",
      "the condition allows 1 hour, and the delay of d.t is 7 days"
    )
  }

  // Rows that are late.

  test("rows are late: how many, by how much, and the delay that would have kept them") {
    says(
      hint(hourly())(
        orders(from = 60) ++ deliveries(from = 60),
        Seq(o("x", clock(80))),
        Seq(o("y", clock(80))),
        orders(from = 40)
      ),
      "left: o",
      "20 of the last 42 rows of o were late, up to ",
      "would have kept 99 %: write withWatermark(\"t\", \""
    )
  }

  testLong("one row a day ahead, in a replay") {
    says(
      hint(hourly())(
        orders() ++ deliveries(),
        Seq(o("w", clock(20))),
        Seq(o("x", "2024-06-02T10:00")),
        Seq(o("y", "2024-06-02T10:00")),
        orders(from = 10)
      ),
      "left: o",
      "20 of the last 43 rows of o were late: a row whose o.t is",
      "filter such rows with a time that the row does not contain",
      "start with a new checkpoint"
    )
  }

  testLong("the clock of one machine is 50 minutes ahead") {
    val now = Instant.now
    def ago(name: String, minutes: Int, of: String = "a")(n: Int): Fed =
      name -> Row(s"$of$n", Timestamp.from(now.minusSeconds(60L * minutes + n)), n)
    says(
      hint(hourly())(
        many(20, ago("o", 10)) ++ many(20, ago("d", 5)),
        many(1, ago("o", -50, "x")),
        many(1, ago("o", -50, "y")),
        many(20, ago("o", 2, "z"))
      ),
      "left: o",
      "49 minutes ahead of the clock",
      "the clock of a machine that writes o is ahead",
      ".where(\"t < current_timestamp() + INTERVAL 1 MINUTE\")"
    )
  }

  test("a row from the far future is reported once, where it comes in") {
    says(
      hint(ofThree())(
        Seq(o("a", "10:00"), d("a", "10:10"), "e" -> row("a", "10:20")),
        Seq(o("b", "2999-01-01T00:00"))
      ),
      "left: o",
      "The newest o.t is 2999-01-01T00:00:00Z"
    )
  }

  // No symptom.

  test("a query without faults has no hint") {
    running(job(hourly("left_outer"))) { job =>
      (0 until 4).foreach { n =>
        val batch =
          orders(from = 20 * n, id = i => s"$n-$i") ++ deliveries(from = 20 * n + 5, id = i => s"$n-$i")
        // Some without a key, some without a time, and one that is late.
        job.feed(batch ++ Seq(o(null, clock(20 * n)), d("x", null), o("z", clock(0))): _*)
      }
      assert(hints(job.streaming).isEmpty)
    }
  }

  testLong("the first batches do not say that batches queue") {
    val fields = StructType.fromDDL(Events)
    val (left, right) =
      (MemoryStream[Row](Encoders.row(fields), spark), MemoryStream[Row](Encoders.row(fields), spark))
    val query = left
      .toDF()
      .withWatermark("t", "0 seconds")
      .as("o")
      .join(right.toDF().withWatermark("t", "0 seconds").as("d"), expr(Hourly))
      .writeStream
      .format("noop")
      .option("checkpointLocation", newFolder())
      .trigger(Trigger.ProcessingTime(1))
      .start()
    try {
      def batch(n: Int): Unit = {
        left.addData(row(s"$n", "10:00"))
        query.processAllAvailable()
      }
      (0 until 5).foreach(batch)
      assert(hints(query).isEmpty)
      (5 until 9).foreach(batch)
      assert(hints(query).exists(_._2.contains("batches queue")))
    } finally query.stop()
  }
}
