package org.apache.spark.sql.streamjoin

import java.io.File
import java.nio.file.{Files, Path}
import java.security.MessageDigest

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.functions._
import org.apache.spark.sql.streaming.StreamingQueryException
import org.apache.spark.sql.{AnalysisException, DataFrame, Row}

/** What is in a checkpoint goes on exactly, or is refused by name and left as it is. */
class CheckpointSuite extends AnyFunSuite with JoinTest {
  import JoinTest._

  private def picked(how: String = "left_outer", condition: String = Hourly): Streams => DataFrame =
    streams => hourly(how, condition)(streams).selectExpr("o.v AS a", "d.v AS b")

  /** Every file and folder, with size and content. */
  private def listing(job: Job): Map[String, String] = {
    val root = Path.of(job.checkpoint)
    val all = Files.walk(root).iterator().asScala.toSeq
    all.map { path =>
      val content =
        if (Files.isDirectory(path)) "folder"
        else
          MessageDigest.getInstance("SHA-256").digest(Files.readAllBytes(path)).map("%02x".format(_)).mkString
      root.relativize(path).toString -> content
    }.toMap
  }

  /** `start()` refuses the successor, and the checkpoint is as it was. */
  private def refused(old: Job, query: Streams => DataFrame): AnalysisException = {
    val before = listing(old)
    val next = old.successor(query)
    val error = intercept[AnalysisException] {
      try next.start()
      finally next.stop()
    }
    assert(listing(old) == before)
    assert(error.getSqlState == "55000")
    error
  }

  private val first = Seq(o("a", "10:00", 1), o("b", "10:00", 2), d("c", "10:10", 3))

  /** A query with something in state. */
  private def begun(query: Streams => DataFrame = picked()): Job = {
    val old = job(query)
    try {
      old.start()
      old.feed(first: _*)
    } finally old.stop()
    old
  }

  /** It goes on where it was, nothing lost and nothing twice. */
  private def goesOn(old: Job): Unit = {
    old.start()
    try {
      assert(old.feed(d("a", "10:30", 4)) == Seq("1 4"))
      assert(old.feed(o("x", "15:00", 5), d("x", "15:00", 6)) == Seq("2 -", "5 6"))
    } finally old.stop(): Unit
  }

  test("begun by Spark's own join") {
    val old = withConf("spark.streamjoin.enabled" -> "false")(begun())
    val error = refused(old, picked())
    assert(error.getCondition == "STREAMJOIN_CHECKPOINT_OF_SPARK_JOIN")
    assert(
      error.getMessage.contains("spark.streamjoin.enabled=false") && error.getMessage.contains(old.checkpoint)
    )
    withConf("spark.streamjoin.enabled" -> "false")(goesOn(old))
  }

  test("begun by Spark's own join, before its first batch was done") {
    val old = withConf("spark.streamjoin.enabled" -> "false")(begun())
    Files.delete(Path.of(old.checkpoint, "commits", "0"))
    assert(refused(old, picked()).getCondition == "STREAMJOIN_CHECKPOINT_OF_SPARK_JOIN")
  }

  test("begun by us, and Spark's turn") {
    val old = begun()
    withConf("spark.streamjoin.enabled" -> "false") {
      val error = refused(old, picked())
      assert(error.getCondition == "STREAMJOIN_CHECKPOINT_OF_STREAMJOIN")
      assert(error.getMessage.contains("spark.streamjoin.enabled=false"))
    }
    withConf("spark.streamjoin.unbounded" -> "spark") {
      val error = refused(old, picked("inner", "o.id = d.id"))
      assert(error.getCondition == "STREAMJOIN_CHECKPOINT_OF_STREAMJOIN")
    }
    goesOn(old)
  }

  private val changes = Seq[(String, String, Streams => DataFrame)](
    ("another bound", "the condition", picked(condition = s"$Hourly AND d.t <= o.t + INTERVAL 59 MINUTES")),
    ("a tighter bound", "the condition", picked(condition = Hourly.replace("1 HOUR", "30 MINUTES"))),
    ("another conjunct", "the condition", picked(condition = s"$Hourly AND o.v < d.v")),
    ("another key", "the equality", picked(condition = Hourly.replace("o.id = d.id", "o.v = d.v"))),
    ("one key more", "the equality", picked(condition = s"$Hourly AND o.v = d.v")),
    ("an inner join", "the join type", picked("inner")),
    ("a full outer join", "the join type", picked("full_outer")),
    ("a semi join", "the join type", streams => hourly("left_semi")(streams).selectExpr("v AS a", "v AS b"))
  )

  for ((name, what, query) <- changes) test(s"$name is refused") {
    val old = begun()
    val error = refused(old, query)
    assert(error.getCondition == "STREAMJOIN_CHECKPOINT_CHANGED")
    assert(error.getMessageParameters.get("what") == what)
    assert(error.getMessageParameters.get("was") != error.getMessageParameters.get("is"))
    goesOn(old)
  }

  private val chained: Streams => DataFrame = streams => {
    val upper = streams.raw("e").withWatermark("t", "0 seconds").as("e")
    val lower = hourly("inner")(streams).selectExpr("o.id AS id", "o.t AS t", "o.v AS a", "d.v AS b").as("f")
    lower.join(upper, expr("f.id = e.id AND e.t BETWEEN f.t AND f.t + INTERVAL 1 HOUR")).selectExpr("a", "b")
  }

  test("a second join is refused, and one taken away") {
    val old = begun(picked("inner"))
    assert(refused(old, chained).getMessageParameters.get("what") == "the number of joins")
    val two = begun(chained)
    val error = refused(two, picked("inner"))
    assert(error.getCondition == "STREAMJOIN_CHECKPOINT_CHANGED")
    assert(error.getMessageParameters.get("what") == "the number of joins")
  }

  test("a first batch that was never committed binds nobody") {
    for (changed <- Seq(picked("inner"), picked(condition = s"$Hourly AND o.v <> d.v"))) {
      val old = begun()
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

  test("another number of partitions is refused") {
    val old = begun()
    withConf("spark.sql.shuffle.partitions" -> "3") {
      val error = refused(old, picked())
      assert(error.getCondition == "STREAMJOIN_CHECKPOINT_PARTITIONS")
      assert(error.getMessage.contains("spark.sql.shuffle.partitions=2"))
    }
    goesOn(old)
  }

  test("a join put into a query that had none") {
    val old = job(streams => streams.raw("o").union(streams.raw("d")).selectExpr("v AS a", "v AS b")).start()
    old.feed(first: _*)
    old.stop()
    val error = refused(old, picked())
    assert(error.getCondition == "STREAMJOIN_CHECKPOINT_CHANGED")
    assert(error.getMessageParameters.get("what") == "the number of joins")
  }

  test("what does not matter may change") {
    val old = begun()
    val others = Seq[Streams => DataFrame](
      // Other aliases, the conjuncts the other way round.
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
      // Another delay of a watermark.
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

  test("another event-time column is refused by name") {
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
    // The batch that was begun is done by the old query.
    running(next.successor(picked())) { job =>
      assert(job.settle() == Seq("1 4"))
      assert(job.feed(o("x", "15:00", 5), d("x", "15:00", 6)) == Seq("2 -", "5 6"))
    }
  }

  for (now <- Seq("current_timestamp()", "CAST(current_date() AS TIMESTAMP)", "localtimestamp()"))
    test(s"a condition with $now starts again") {
      val old = begun(picked(condition = s"$Hourly AND o.t < $now"))
      goesOn(old)
    }

  test("a condition for which Spark makes a column of its own starts again") {
    goesOn(begun(picked(condition = s"$Hourly AND o.v + 1 BETWEEN -10 - d.v AND d.v + 10")))
  }

  test("a join with one of Spark's beside it starts again") {
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

  // Damaged files.

  private def damage(job: Job, file: String, content: String): Unit = {
    val path = Path.of(job.checkpoint, file)
    assert(Files.exists(path), s"no $path")
    Files.writeString(path, content)
    Files.deleteIfExists(path.resolveSibling(s".${path.getFileName}.crc")): Unit
  }

  for (
    (file, rows) <- Seq(
      ("keyed-watermarks/0", false),
      ("keyed-watermarks/1", true),
      ("stream-joins/0", true)
    );
    content <- Seq("", "no JSON", "{}", "[]", """{"version":99}""")
  ) test(s"$file with ${if (content.isEmpty) "nothing" else content} in it") {
    val old = begun()
    // Written before the batch, it is what counts for rows of this batch.
    damage(old, file, content)
    val next = old.successor(picked())
    val before = listing(old)
    val error = intercept[Exception] {
      try {
        next.start()
        next.feed((if (rows) Seq(d("a", "10:30", 4)) else Nil): _*)
        if (!rows) next.feed(d("a", "10:30", 4))
      } finally next.stop()
    }
    assert(SparkTest.errorClass(error).contains("STREAMJOIN_CHECKPOINT_UNREADABLE"), error)
    val messages =
      Iterator.iterate[Throwable](error)(_.getCause).takeWhile(_ != null).map(_.getMessage).mkString
    assert(messages.contains(file.takeWhile(_ != '/')))
    val changed = (listing(old).toSet -- before.toSet).map(_._1)
    assert(changed.forall(path => path.startsWith("offsets") || path.startsWith("sources")), s"$changed")
  }

  for (file <- Seq("keyed-watermarks/0", "stream-joins/0")) test(s"$file that is gone") {
    val old = begun()
    val path = Path.of(old.checkpoint, file)
    Files.delete(path)
    Files.deleteIfExists(path.resolveSibling(s".${path.getFileName}.crc"))
    val next = old.successor(picked())
    val error = intercept[Exception] {
      try {
        next.start()
        next.feed(d("a", "10:30", 4))
      } finally next.stop()
    }
    assert(SparkTest.errorClass(error).contains("STREAMJOIN_CHECKPOINT_UNREADABLE"), error)
    val messages = Iterator.iterate[Throwable](error)(_.getCause).takeWhile(_ != null).map(_.getMessage)
    assert(messages.exists(message => message.contains(file) && message.contains("it is missing")))
    assert(!Files.exists(path) && next.seen.isEmpty)
  }

  // Every kind of store.

  private val rocksDb = "spark.sql.streaming.stateStore.providerClass" ->
    "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
  private val changelog = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
  private val format = "spark.sql.streaming.stateStore.checkpointFormatVersion"
  private val checksums = "spark.sql.streaming.checkpoint.fileChecksum.enabled" -> "true"

  private val stores = Seq[(String, Seq[(String, String)])](
    "default store" -> Nil,
    "default store, a snapshot each batch" -> Seq(
      "spark.sql.streaming.stateStore.minDeltasForSnapshot" -> "1"
    ),
    "default store, checksums" -> Seq(checksums),
    "RocksDB" -> Seq(rocksDb, changelog -> "false"),
    "RocksDB, changelog" -> Seq(rocksDb, changelog -> "true"),
    "RocksDB, format 2" -> Seq(rocksDb, changelog -> "false", format -> "2"),
    "RocksDB, changelog, format 2" -> Seq(rocksDb, changelog -> "true", format -> "2")
  )

  private val story: Seq[Seq[(String, Row)]] = Seq(
    Seq(o("a", "10:00", 1), o("b", "10:00", 2), o("b", "10:01", 3), d("c", "10:10", 4)),
    Seq(o("c", "10:05", 5), d("a", "10:30", 6)),
    Seq(d("x", "11:10", 7), d("a", "10:40", 8)),
    Seq(o("late", "09:00", 9), o("y", "10:40", 10), d("y", "11:20", 11)),
    Seq(o("z", "12:00", 12), d("z", "13:30", 13)),
    Seq(o("end", "20:00", 14), d("end", "20:00", 14))
  )

  private lazy val uninterrupted: Seq[String] =
    running(job(picked("full_outer")))(job => story.flatMap(rows => job.feed(rows: _*)))

  for ((name, settings) <- stores) test(s"stopped and started after every batch: $name") {
    withConf(settings: _*) {
      running(job(picked("full_outer"))) { job =>
        val out = story.flatMap { rows =>
          val out = job.feed(rows: _*)
          job.restart()
          out
        }
        assert(out == uninterrupted)
        assert(out.sorted == out.distinct.sorted)
      }
    }
  }

  for ((name, settings) <- stores.filter(_._1.contains("format 2")) :+ stores.head)
    test(s"the last batch done again, every time: $name") {
      withConf(settings: _*) {
        running(job(picked("full_outer"))) { job =>
          story.foreach { rows =>
            job.feed(rows: _*)
            job.stop()
            val last = job.seen.last.id
            Files.delete(Path.of(job.checkpoint, "commits", last.toString))
            Files.deleteIfExists(Path.of(job.checkpoint, "commits", s".$last.crc"))
            job.start()
            job.settle()
          }
          val once = job.seen.groupBy(_.id).toSeq.sortBy(_._1).map(_._2)
          assert(once.forall(_.map(_.rows.sorted).distinct.size == 1))
          assert(once.flatMap(_.head.rows).sorted == uninterrupted.sorted)
        }
      }
    }

  // The cap on rows.

  private val cap = "spark.streamjoin.maxAccumulatedRecords"

  test("the cap: nothing of the batch is committed, and with a higher one it goes on") {
    // One key, so that one task has them all.
    def orders(from: Int, to: Int) = (from to to).map(n => o("a", f"10:$n%02d", n))
    val capped = job(picked())
    withConf(cap -> "5") {
      running(capped) { job =>
        assert(job.feed(orders(1, 4): _*).isEmpty)
        val before = listing(job).filter { case (path, _) =>
          !path.startsWith("offsets") && !path.startsWith("sources")
        }
        val error = intercept[StreamingQueryException](job.feed(orders(5, 6) :+ d("a", "10:30", 9): _*))
        assert(SparkTest.errorClass(error).contains("STREAMJOIN_MAX_ACCUMULATED_RECORDS"))
        val messages =
          Iterator.iterate[Throwable](error)(_.getCause).takeWhile(_ != null).map(_.getMessage).mkString
        assert(messages.contains(cap) && messages.contains(" 5 "))
        assert(job.seen.map(_.id).toSeq == Seq(0L))
        val after = listing(job).filter { case (path, _) =>
          !path.startsWith("offsets") && !path.startsWith("sources")
        }
        assert(after.filter(_._1.startsWith("commits")) == before.filter(_._1.startsWith("commits")))
        // A task that had few rows may have written its part of the next version; it counts for nothing.
        assert(before.forall { case (path, content) => after.get(path).contains(content) })
      }
      // Again, the same.
      intercept[StreamingQueryException](running(capped)(_.settle())): Unit
    }
    withConf(cap -> "100") {
      running(capped) { job =>
        assert(job.settle() == Nil || job.settle().isEmpty)
        val rows = job.seen.flatMap(_.rows).sorted.toSeq
        assert(rows == (1 to 6).map(n => s"$n 9"))
        assert(job.feed(d("a", "10:31", 10)) == (1 to 6).map(n => s"$n 10").sorted)
      }
    }
  }

  test("the cap counts both sides, and rows that left make room") {
    withConf(cap -> "6") {
      running(job(picked("full_outer"))) { job =>
        job.feed(o("a", "10:00", 1), d("a", "10:00", 2))
        job.feed(d("a", "10:10", 3))
        // They leave.
        job.feed(o("a", "18:00", 4), d("a", "18:00", 5))
        assert(job.operator.numRowsTotal == 2)
        assert(job.feed(d("a", "18:01", 6)) == Seq("4 6"))
        assert(job.feed(o("a", "18:00", 7), o("a", "18:00", 8)).size == 4)
        val error = intercept[StreamingQueryException](job.feed(o("a", "18:00", 9)))
        assert(SparkTest.errorClass(error).contains("STREAMJOIN_MAX_ACCUMULATED_RECORDS"))
      }
    }
    intercept[IllegalArgumentException](withConf(cap -> "0")(())): Unit
  }

  test("the same rows cut into other batches give the same output") {
    val rows = story.flatten.filterNot(_._2.getString(0) == "late")
    val outs = Seq(1, 2, 5, 100).map { size =>
      running(job(picked("full_outer"))) { job =>
        // Sorted by time over both streams, so that none is late whatever the batches.
        val out = mutable.ArrayBuffer.empty[String]
        rows.sortBy(_._2.getTimestamp(1).getTime).grouped(size).foreach(batch => out ++= job.feed(batch: _*))
        out ++= job.feed(o("flush", "23:00", 99), d("flush", "23:00", 99))
        out.sorted.toSeq
      }
    }
    assert(outs.distinct.size == 1)
  }
}
