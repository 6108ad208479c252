package org.apache.spark.sql.streamjoin.checkpoint

import java.io.File
import java.nio.file.{Files, Path}

import org.scalatest.Assertion
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager
import org.apache.spark.sql.functions._
import org.apache.spark.sql.streamjoin.files.AtomicCheckpointFileManager
import org.apache.spark.sql.streamjoin.{CheckpointTest, Frames, JoinTest, SparkTest}
import org.apache.spark.sql.{AnalysisException, DataFrame, Row}

/**
 * A query resumes from the checkpoint of another, or is rejected with an error class and leaves the
 * checkpoint unchanged.
 */
class CheckpointSuite extends AnyFunSuite with CheckpointTest {
  import JoinTest._

  /** `start()` rejects the successor and leaves the checkpoint unchanged. */
  private def rejected(old: Job, query: Streams => DataFrame): AnalysisException = {
    val error = startError(old, query)
    assert(error.getSqlState == "55000")
    error
  }

  /** The query resumes where it was: no row is lost or emitted twice. */
  private def goesOn(old: Job): Unit = {
    old.start()
    try {
      assert(old.feed(d("a", "10:30", 4)) == Seq("1 4"))
      // W(d) = 15:00 evicts orders before 14:00.
      assert(old.feed(o("x", "15:00", 5), d("x", "15:00", 6)) == Seq("2 -", "5 6"))
    } finally old.stop(): Unit
  }

  /** Spark's own join, with a file manager that starts no process for each file. */
  private def withSparksJoin[T](body: => T): T = withConf(
    "spark.streamjoin.enabled" -> "false",
    AtomicCheckpointFileManager.Setting -> classOf[FileSystemBasedCheckpointFileManager].getName
  )(body)

  test("the checkpoint of Spark's own join is rejected") {
    val old = withSparksJoin(begun())
    val error = rejected(old, picked())
    assert(error.getCondition == "STREAMJOIN_CHECKPOINT_OF_SPARK_JOIN")
    assert(error.getMessage.contains("spark.streamjoin.enabled=false"))
    assert(error.getMessage.contains(old.checkpoint))
    withSparksJoin(goesOn(old))
  }

  test("the checkpoint of Spark's own join is rejected even before its first commit") {
    val old = withSparksJoin(begun())
    Files.delete(Path.of(old.checkpoint, "commits", "0"))
    assert(rejected(old, picked()).getCondition == "STREAMJOIN_CHECKPOINT_OF_SPARK_JOIN")
  }

  test("our checkpoint is rejected if the join is left to Spark") {
    val old = begun()
    withConf("spark.streamjoin.enabled" -> "false") {
      val error = rejected(old, picked())
      assert(error.getCondition == "STREAMJOIN_CHECKPOINT_OF_STREAMJOIN")
      assert(error.getMessage.contains("spark.streamjoin.enabled=false"))
    }
    withConf("spark.streamjoin.unbounded" -> "spark") {
      val error = rejected(old, picked("inner", "o.id = d.id"))
      assert(error.getCondition == "STREAMJOIN_CHECKPOINT_OF_STREAMJOIN")
    }
    goesOn(old)
  }

  private val changes = Seq[(String, String, Streams => DataFrame)](
    ("another bound", "bound", picked(condition = s"$Hourly AND d.t <= o.t + INTERVAL 59 MINUTES")),
    ("a tighter bound", "bound", picked(condition = Hourly.replace("1 HOUR", "30 MINUTES"))),
    ("another conjunct", "condition", picked(condition = s"$Hourly AND o.v < d.v")),
    ("another key", "equality", picked(condition = Hourly.replace("o.id = d.id", "o.v = d.v"))),
    ("one more key", "equality", picked(condition = s"$Hourly AND o.v = d.v")),
    ("an inner join", "join_type", picked("inner")),
    ("a full outer join", "join_type", picked("full_outer")),
    ("a semi join", "join_type", streams => hourly("left_semi")(streams).selectExpr("v AS a", "v AS b"))
  )

  /** One for all of them, because what is rejected leaves it unchanged. */
  private lazy val unchanged = begun()

  for ((name, what, query) <- changes) test(s"restarting with $name is rejected") {
    val error = rejected(unchanged, query)
    assert(error.getCondition == "STREAMJOIN_CHECKPOINT_CHANGED")
    assert(error.getMessageParameters.get("what") == what)
    assert(error.getMessageParameters.get("was") != error.getMessageParameters.get("is"))
  }

  test("a query continues after others were rejected over its checkpoint")(goesOn(unchanged))

  private val Zone = "spark.sql.session.timeZone"

  private def since(literal: String) = picked(condition = s"$Hourly AND greatest(o.t, d.t) > $literal")

  testLong("in another session time zone, the same timestamp text is accepted") {
    val texts = Seq("TIMESTAMP '2024-06-01 02:00:00'", "'2024-06-01 02:00:00'", "DATE '2024-06-01'")
    // A text with a zone is the same instant everywhere.
    for (literal <- SparkTest.part(texts :+ "TIMESTAMP '2024-06-01 02:00:00Z'", every = 3)) {
      val old = begun(since(literal))
      withConf(Zone -> "America/New_York")(running(old)(_.settle()))
      withConf(Zone -> "Asia/Kolkata")(running(old)(_.settle()))
      goesOn(old)
    }
  }

  test("in another session time zone, another timestamp text is rejected") {
    val old = begun(since("TIMESTAMP '2024-06-01 02:00:00'"))
    val others = Seq("TIMESTAMP '2024-06-01 02:00:01'", "TIMESTAMP '2024-06-01 03:00:00'")
    for (literal <- others; zone <- Seq("America/New_York", "Europe/Berlin", "UTC"))
      withConf(Zone -> zone) {
        assert(rejected(old, since(literal)).getMessageParameters.get("what") == "condition")
      }
    withConf(Zone -> "America/New_York") {
      assert(rejected(old, picked()).getMessageParameters.get("what") == "condition")
    }
    goesOn(old)
  }

  testLong("a timestamp text that a time zone skips or repeats can be restarted") {
    val times = Seq("2024-03-31 02:30:00" -> "Europe/Berlin", "2023-10-29 02:30:00" -> "Europe/Berlin")
    for {
      ((time, zone), number) <- times.zipWithIndex
      (before, after) <- SparkTest.part(Seq("UTC" -> zone, zone -> "UTC"), every = 2, from = number)
    } {
      val old = withConf(Zone -> before)(begun(since(s"TIMESTAMP '$time'")))
      withConf(Zone -> after)(goesOn(old))
    }
  }

  private val chained: Streams => DataFrame = streams => {
    val upper = streams.raw("e").withWatermark("t", "0 seconds").as("e")
    val lower = hourly("inner")(streams).selectExpr("o.id AS id", "o.t AS t", "o.v AS a", "d.v AS b").as("f")
    lower.join(upper, expr("f.id = e.id AND e.t BETWEEN f.t AND f.t + INTERVAL 1 HOUR")).selectExpr("a", "b")
  }

  testLong("adding or removing a second join with its source is rejected") {
    val old = begun(picked("inner"))
    assert(rejected(old, chained).getMessageParameters.get("what") == "number_of_sources")
    val two = begun(chained)
    val error = rejected(two, picked("inner"))
    assert(error.getCondition == "STREAMJOIN_CHECKPOINT_CHANGED")
    assert(error.getMessageParameters.get("what") == "number_of_sources")
  }

  test("a query may change as long as its first batch is not committed") {
    val noOthers = "spark.sql.streaming.noDataMicroBatches.enabled" -> "false"
    val sorted: Streams => DataFrame = streams =>
      Frames
        .sorted(hourly()(streams).selectExpr("o.t AS t", "o.v AS a", "d.v AS b"), "t")
        .selectExpr("a", "b")
    val closest: Streams => DataFrame = streams =>
      Frames
        .asof(
          streams.marked("o").join(streams.marked("d"), expr("o.id = d.id")),
          "o.t >= d.t",
          Some("1 hour")
        )
        .selectExpr("o.v AS a", "d.v AS b")
    val changes = Seq(
      picked() -> picked("inner"),
      picked() -> picked(condition = s"$Hourly AND o.v <> d.v"),
      // With one operator less, and with one of another kind.
      sorted -> picked(),
      closest -> picked()
    )
    for ((query, changed) <- SparkTest.part(changes, every = 3)) {
      val old = withConf(noOthers)(begun(query))
      new File(s"${old.checkpoint}/commits").listFiles().foreach(_.delete())
      val next = old.successor(changed)
      try {
        next.start()
        assert(next.feed(d("a", "10:30", 4)).contains("1 4"))
        next.restart()
        assert(next.feed(d("a", "10:40", 5)) == Seq("1 5"))
      } finally next.stop()
    }
  }

  testLong("with another spark.sql.shuffle.partitions, the number of the checkpoint is kept") {
    val old = begun()
    for (partitions <- Seq("3", "1")) withConf("spark.sql.shuffle.partitions" -> partitions) {
      running(old) { job =>
        job.feed(d("c", s"10:2$partitions", 9))
        assert(job.joins.head.getStateInfo.numPartitions == 2)
      }
    }
    withConf("spark.sql.shuffle.partitions" -> "5")(goesOn(old))
  }

  test("with spark.streamjoin.partitions, a query has that number; without, its checkpoint keeps it") {
    val old = withConf("spark.streamjoin.partitions" -> "3")(begun())
    for (partitions <- Seq("1", "4")) withConf("spark.streamjoin.partitions" -> partitions) {
      running(old) { job =>
        job.feed(d("c", s"10:2$partitions", 9))
        assert(job.joins.head.getStateInfo.numPartitions == partitions.toInt)
      }
    }
    running(old) { job =>
      job.feed(d("c", "10:25", 9))
      assert(job.joins.head.getStateInfo.numPartitions == 4)
    }
    goesOn(old)
  }

  test("adding a join to a query without one is rejected") {
    val old = job(streams => streams.raw("o").union(streams.raw("d")).selectExpr("v AS a", "v AS b")).start()
    old.feed(begin: _*)
    old.stop()
    val error = rejected(old, picked())
    assert(error.getCondition == "STREAMJOIN_CHECKPOINT_CHANGED")
    assert(error.getMessageParameters.get("what") == "number_of_operators")
  }

  test("aliases, output columns and watermark delays may change") {
    val old = begun()
    val others = Seq[Streams => DataFrame](
      // Other aliases.
      streams =>
        streams
          .raw("o")
          .withWatermark("t", "0 seconds")
          .as("x")
          .join(
            streams.raw("d").withWatermark("t", "0 seconds").as("y"),
            expr("x.id = y.id AND y.t BETWEEN x.t AND x.t + INTERVAL 1 HOUR"),
            "left_outer"
          )
          .selectExpr("x.v AS a", "y.v AS b"),
      // Another output.
      streams => picked()(streams).selectExpr("a", "b + 0 AS b"),
      // Other watermark delays.
      streams =>
        streams
          .marked("o", "1 minute")
          .join(streams.marked("d", "2 minutes"), expr(Hourly), "left_outer")
          .selectExpr("o.v AS a", "d.v AS b")
    )
    val jobs = others.scanLeft(old)(_.successor(_)).tail
    jobs.foreach(next => running(next)(_.settle()))
    goesOn(old)
  }

  // A query without and with a filter, batches with the filter, and their output. Spark plans no
  // filter in a batch without rows, and declares the columns of a plain source as nullable anyway.
  private val filtered: Seq[(String, Boolean => Streams => DataFrame, Seq[Seq[(String, Row)]], String)] = {
    def orders(streams: Streams, has: Boolean) = {
      val all = streams.raw("o").selectExpr("id", "t", "explode(array(v)) AS v").withWatermark("t", "1 hour")
      (if (has) all.where("v >= 0") else all).as("o")
    }
    def joined(equality: String)(has: Boolean)(streams: Streams) = {
      val on = expr(s"$equality AND d.t BETWEEN o.t AND o.t + INTERVAL 1 HOUR")
      orders(streams, has).join(streams.marked("d"), on, "left_outer").selectExpr("o.v AS a", "d.v AS b")
    }
    def sorted(has: Boolean)(streams: Streams) =
      Frames.sorted(orders(streams, has), "t").selectExpr("id", "v")
    val matching = Seq(Seq(o("x", "10:20", 2), d("a", "10:30", 4)))
    Seq(
      ("a join with a computed key", joined("lower(o.id) = d.id"), matching, "- 4"),
      ("a join", joined("o.id = d.id"), matching, "- 4"),
      ("an order of time", sorted, Seq(Seq(o("x", "12:00", 2)), Seq(o("y", "12:00", 3))), "a -")
    )
  }

  for ((name, query, next, out) <- SparkTest.part(filtered, every = 2))
    test(s"a row in state keeps its null if a filter is added that excludes nulls, $name") {
      withConf("spark.sql.streaming.noDataMicroBatches.enabled" -> "false") {
        val old = job(query(false))
        running(old)(job => assert(job.feed("o" -> Row("a", at("10:00"), null)) == Nil))
        running(old.successor(query(true))) { job =>
          assert(next.flatMap(rows => job.feed(rows: _*)) == Seq(out))
        }
      }
    }

  test("another event-time column is rejected with its own error") {
    val old = begun()
    val next = old.successor { streams =>
      val marked = streams.raw("o").withColumnRenamed("t", "s").withWatermark("s", "0 seconds")
      marked
        .withColumnRenamed("s", "t")
        .as("o")
        .join(streams.marked("d"), expr(Hourly), "left_outer")
        .selectExpr("o.v AS a", "d.v AS b")
    }
    val error = intercept[Exception] {
      try {
        next.start()
        next.feed(d("a", "10:30", 4))
      } finally next.stop()
    }
    assert(SparkTest.errorClass(error).contains("STREAMJOIN_WATERMARK_KEYS_CHANGED"))
    // The old query completes the batch that was planned.
    running(next.successor(picked())) { job =>
      assert(job.settle() == Seq("1 4"))
      // W(d) = 15:00 evicts orders before 14:00.
      assert(job.feed(o("x", "15:00", 5), d("x", "15:00", 6)) == Seq("2 -", "5 6"))
    }
  }

  test("a query continues once a damaged file of its checkpoint is restored") {
    val old = begun()
    val file = Path.of(old.checkpoint, "stream-joins", "0")
    val bytes = Files.readAllBytes(file)
    def write(content: Array[Byte]): Unit = {
      Files.write(file, content)
      Files.deleteIfExists(file.resolveSibling(".0.crc")): Unit
    }
    write("{}".getBytes)
    val next = old.successor(picked())
    val error = intercept[Exception] {
      try next.start()
      finally next.stop()
    }
    assert(SparkTest.errorClass(error).contains("STREAMJOIN_CHECKPOINT_UNREADABLE"))
    write(bytes)
    goesOn(old)
  }

  private val Times =
    Seq("now()", "current_timestamp()", "CAST(current_date() AS TIMESTAMP)", "localtimestamp()")
      .map(now => (now, s"o.t < $now", s"greatest(o.t, d.t) < $now")) :+
      ("current_time()", "hour(current_time()) > -o.v", "hour(current_time()) > -greatest(o.v, d.v)")

  for ((now, ofLeft, ofBoth) <- SparkTest.part(Times, every = 5, from = 4))
    test(s"a join with $now in its condition can be restarted") {
      withConf("spark.sql.timeType.enabled" -> "true") {
        goesOn(begun(picked(condition = s"$Hourly AND $ofLeft")))
        val on = picked("inner", s"$Hourly AND $ofBoth")
        val where: Streams => DataFrame =
          streams => hourly("inner")(streams).where(ofBoth).selectExpr("o.v AS a", "d.v AS b")
        for (query <- Seq(on, where))
          running(begun(query))(job => assert(job.feed(d("a", "10:30", 4)) == Seq("1 4")))
      }
    }

  test("an equality that depends on the time of the batch is not used as a key") {
    // Buffered rows would keep the key of the day on which they came.
    for (today <- SparkTest.part(Seq("current_date()", "CAST(now() AS DATE)"), every = 2)) {
      val equality = s"date_add($today, o.v - o.v) = date_add($today, d.v - d.v)"
      def checked(condition: String, keys: Int, out: Seq[String]): Assertion = {
        val begun = this.begun(picked("inner", s"$condition AND $equality"))
        running(begun) { job =>
          assert(job.feed(d("a", "10:30", 4)) == out)
          assert(job.joins.head.leftKeys.size == keys)
        }
      }
      checked(Hourly, 1, Seq("1 4"))
      checked(Hourly.replace("o.id = d.id AND ", ""), 0, Seq("1 4", "2 4"))
    }
  }

  test("a join whose condition makes Spark add a column can be restarted") {
    goesOn(begun(picked(condition = s"$Hourly AND o.v + 1 BETWEEN -10 - d.v AND d.v + 10")))
  }

  test("a join whose condition has a lambda function of the API can be restarted") {
    // Spark gives its variables other numbers when the query is built again.
    goesOn(begun { streams =>
      val smaller = exists(array(col("o.v"), lit(-1)), v => exists(array(col("d.v")), w => v < w))
      streams
        .marked("o")
        .join(streams.marked("d"), expr(Hourly) && smaller, "left_outer")
        .selectExpr("o.v AS a", "d.v AS b")
    })
  }

  test("a join whose condition has a set of bytes can be restarted") {
    val bytes = "abxcdefghijk".map(letter => f"X'${letter.toInt}%02x'").mkString(", ")
    val id = "encode(o.id, 'UTF-8')"
    goesOn(begun(picked(condition = s"$Hourly AND $id IN ($bytes) AND array_contains(array($bytes), $id)")))
  }

  test("a query that has one of Spark's joins too can be restarted") {
    withConf("spark.streamjoin.unbounded" -> "spark") {
      val between = "o.id = d.id AND d.t - INTERVAL 1 SECOND BETWEEN o.t AND o.t + INTERVAL 1 HOUR"
      running(job { streams =>
        val ours = hourly(condition = between)(streams).selectExpr("o.v AS a", "d.v AS b").as("f")
        ours.join(streams.raw("e"), expr("f.a = v")).selectExpr("a", "b", "id")
      }) { job =>
        job.feed(o("a", "10:00", 1), "e" -> row("x", "10:00", 1))
        job.restart()
        assert(job.feed(d("a", "10:30", 2)) == Seq("1 2 x"))
        job.restart()
        assert(job.feed(d("a", "10:40", 3)) == Seq("1 3 x"))
      }
    }
  }
}
