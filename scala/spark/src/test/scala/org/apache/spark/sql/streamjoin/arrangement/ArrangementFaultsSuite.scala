package org.apache.spark.sql.streamjoin.arrangement

import java.nio.file.{Files, Path}

import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.Row
import org.apache.spark.sql.functions.{count, lit}
import org.apache.spark.sql.streamjoin.arrangement.maintain.Arrangements
import org.apache.spark.sql.streamjoin.arrangement.storage.ArrangementFolder
import org.apache.spark.sql.streamjoin.{ArrangementTest, Frames, JoinTest, SparkTest}

import streamjoin.StreamJoin

/** Faulty input and leftover files of arrangements: what is rejected, kept or removed. */
class ArrangementFaultsSuite extends AnyFunSuite with ArrangementTest {
  import ArrangementTest._

  private def orders(root: String = newFolder("a")) =
    maintainer("id INT, k INT, op STRING", Seq(Seq("id"), Seq("k")), op = Some("op"), root = root)

  private val random = new Random(7)

  // Orphaned files.

  /** Files of changes, bases and versions that no manifest names. */
  private def orphans(it: Maintainer): Seq[String] = {
    val named = it.folder.versionNumbers.map(it.folder.manifest).flatMap { manifest =>
      (manifest.changes ++ manifest.baseFiles).map(_.path) :+ s"versions/${manifest.version}"
    }
    Seq("changes", "bases", "versions")
      .flatMap { name =>
        val folder = Path.of(it.root, name)
        if (Files.exists(folder)) files(folder.toString) else Nil
      }
      .map(Path.of(it.root).relativize(_).toString)
      .filterNot(named.contains)
  }

  private def plant(it: Maintainer, name: String): Unit = {
    val path = Path.of(it.root, name)
    Files.createDirectories(path.getParent)
    Files.write(path, Array[Byte](1)): Unit
  }

  testLong("the next version removes the files of attempts that were not committed") {
    val it = maintainer("id INT, name STRING, op STRING", Seq(Seq("id")), op = Some("op"))
    during(it) {
      val names = Seq.fill(80)(randomText(random, 30000))
      it.feed(names.zipWithIndex.map { case (name, id) => Row(id, name, "i") }: _*)
      it.stop()
      val base = orphans(it)
      assert(base.nonEmpty && base.forall(_.startsWith("bases/1/")), "the base that no version names yet")
      plant(it, "versions/.0.of-another-driver.tmp")
      plant(it, "versions/.1.of-a-driver-that-was-killed.tmp")
      it.start()
      val run = ArrangementFolder.tag(it.running.runId)
      // From a task that ended after its batch, and from tasks that were killed.
      plant(it, s"changes/0/1-$run-of-a-task-that-nobody-waited-for")
      plant(it, s"changes/1/0-$run-of-a-task-that-was-killed")
      plant(it, s"bases/1/0-$run-of-a-task-that-was-killed")
      assert(orphans(it).size == base.size + 5)
      it.feed(Row(0, "w", "u"))
      it.feed(Row(0, "x", "u"))
      assert(it.folder.manifest(2).baseFiles.nonEmpty, "no base was written")
      assert(orphans(it).isEmpty)
      forgetIndexes()
      assert(rowsOf(it.root, Some(0)).size == 80)
      assert(rowsOf(it.root).count(_ == "0 x") == 1)
    }
  }

  test("leftovers of an earlier run are removed a version later; files of another live run stay") {
    val it = orders()
    during(it) {
      it.feed(Row(1, 1, "i"))
      it.stop()
      plant(it, "changes/0/1-abcdef01-of-a-task-that-nobody-waited-for")
      plant(it, "changes/1/0-abcdef01-of-a-driver-that-was-killed")
      plant(it, "changes/1/0-of-an-older-build")
      it.start()
      it.feed(Row(2, 1, "i"))
      assert(
        orphans(it).toSet ==
          Set("changes/1/0-abcdef01-of-a-driver-that-was-killed", "changes/1/0-of-an-older-build")
      )
      plant(it, "changes/1/0-abcdef02-of-another-run")
      plant(it, "changes/2/0-abcdef02-of-another-run")
      it.feed(Row(3, 1, "i"))
      it.feed(Row(4, 1, "i"))
      val others = Set("changes/1/0-abcdef02-of-another-run", "changes/2/0-abcdef02-of-another-run")
      assert(orphans(it).toSet == others)
    }
  }

  test("a replayed batch leaves no orphaned files") {
    val it = orders()
    during(it) {
      it.feed(Row(1, 1, "i"), Row(2, 2, "i"))
      it.feed(Row(1, 3, "u"), Row(3, 2, "i"))
      val before = it.folder.manifest(1)
      it.replay()
      assert(it.folder.manifest(1) == before)
      assert(orphans(it).isEmpty)
      forgetIndexes()
      assert(rowsOf(it.root) == Seq("1 3", "2 2", "3 2"))
    }
  }

  // Updates and deletes of unknown keys.

  test("updates and deletes of unknown keys are kept once and show up in sj.late_rows") {
    withConf("spark.streamjoin.lateRows" -> "keep") {
      val it = orders()
      during(it) {
        def unknown = StreamJoin.lateRows(it.running)
        def kept = unknown.orderBy("batch", "row").collect().map(JoinTest.text).toSeq
        it.feed(Row(1, 1, "i"), Row(2, 2, "update"))
        it.feed(Row(1, 5, "u"), Row(3, null, "d"), Row(4, 4, "Delete"), Row(5, 5, "insert"))
        it.feed(Row(2, 3, "u"))
        val expected = Seq(
          """0 - - NAME - - {"id":2,"k":2,"op":"update"}""",
          """1 - - NAME - - {"id":3,"k":null,"op":"d"}""",
          """1 - - NAME - - {"id":4,"k":4,"op":"Delete"}"""
        ).map(_.replace("NAME", Path.of(it.root).getFileName.toString))
        assert(kept == expected)
        val counts = it.folder.manifest(2).counts
        assert(counts("updatesOfUnknownKeys") == 1)
        assert(counts("deletesOfUnknownKeys") == 2)

        // Replay the batch, with and without the index in memory.
        it.feed(Row(7, 7, "u"), Row(8, 8, "d"), Row(1, null, "d"))
        val four = kept
        assert(four.size == 5)
        assert(four.take(3) == expected)
        it.replay()
        assert(kept == four)
        it.stop()
        forgetIndexes()
        it.replay()
        assert(kept == four)
        withConf("spark.streamjoin.partitions" -> "5")(it.replay())
        assert(kept == four)
        assert(it.folder.manifest(3).counts("updatesOfUnknownKeys") == 2)

        // Rows of an uncommitted batch are not visible.
        val late = unknown.select("batch").collect().map(_.getLong(0)).toSeq
        assert(late.max == 3)
        rejected("STREAMJOIN_OPERATION")(it.feed(Row(9, 9, "u"), Row(1, 1, "no operation")))
        assert(kept == four)
        val parsed = unknown.selectExpr("from_json(row, 'id INT, k INT, op STRING').op AS op")
        assert(parsed.where("op = 'd'").count() == 2)
      }
    }
  }

  test("by default, changes of unknown keys are only counted") {
    val it = orders()
    during(it) {
      it.feed(Row(1, 1, "u"))
      rejected("STREAMJOIN_LATE_ROWS_NOT_KEPT")(StreamJoin.lateRows(it.running))
      assert(!Files.exists(Path.of(it.checkpoint, "late-rows")))
    }
  }

  // Numbers of copies.

  test("a null or oversized number of copies fails the batch, and none of its rows are visible") {
    val wrong = Seq[Any](Int.MaxValue + 1L, Int.MinValue - 1L, Long.MinValue, null)
    for (diff <- SparkTest.part(wrong, every = 3)) {
      val it = maintainer("id INT, d LONG", Seq(Seq("id")), diff = Some("d"))
      during(it) {
        it.feed(Row(1, 2L), Row(2, Int.MaxValue.toLong), Row(2, -Int.MaxValue.toLong))
        val said = rejected("STREAMJOIN_DIFF")(it.feed(Row(3, 1L), Row(1, diff)))
        assert(said.contains(s"copies $diff"))
        assert(said.contains("2147483647"))
        assert(it.folder.newest == 0)
        assert(rowsOf(it.root) == Seq("1", "1"))
      }
    }
  }

  testLong("copies of a row are counted beyond the range of an Int and below zero") {
    val it = maintainer("id INT, d LONG", Seq(Seq("id")), diff = Some("d"))
    val reader = deltaJoin(Seq("a" -> it, "b" -> it), "a.id = b.id", Seq("a.id"))
    during(it, reader) {
      var copies = 0L
      for (diff <- Seq(Int.MinValue, -5, Int.MaxValue, -7, Int.MaxValue, 1000)) {
        it.feed(Row(1, diff.toLong))
        copies += diff
        reader.settle()
        assert(it.folder.manifest(it.folder.newest).counts("rows") == copies)
        assert(reader.sum() == Map("1" -> copies * copies))
      }
    }
  }

  testLong("a row added with 0.0 can be removed with -0.0, and NaN with another NaN, at any depth") {
    val other = java.lang.Double.longBitsToDouble(0x7ff8000000000001L)
    val it = maintainer(
      "id INT, x DOUBLE, s STRUCT<f: FLOAT, l: ARRAY<DOUBLE>>, d INT",
      Seq(Seq("id"), Seq("x")),
      diff = Some("d")
    )
    val reader = deltaJoin(Seq("a" -> it, "b" -> it), "a.x = b.x", Seq("a.id", "b.id AS other"))
    during(it, reader) {
      it.feed(Row(1, 0.0, Row(-0.0f, Seq(0.0, 1.5)), 2), Row(2, Double.NaN, Row(1f, Seq(-0.0)), 1))
      reader.settle()
      it.feed(Row(1, -0.0, Row(0.0f, Seq(-0.0, 1.5)), -1), Row(2, other, Row(1f, Seq(0.0)), -1))
      reader.settle()
      assert(it.folder.manifest(1).counts("rows") == 1)
      assert(rowsOf(it.root) == Seq("1 0.0 (0.0 ArraySeq(0.0, 1.5))"))
      assert(reader.sum() == Map("1 1" -> 1L))
      it.feed(Row(1, -0.0, Row(-0.0f, Seq(0.0, 1.5)), -1))
      reader.settle()
      assert(rowsOf(it.root).isEmpty)
      assert(reader.sum().isEmpty)
    }
  }

  // Progress.

  testLong("the progress counts rows loaded to look up an unchanged input, of the last batch only") {
    val (left, right) = (orders(), orders())
    val reader = deltaJoin(Seq("x" -> left, "y" -> right), "x.k = y.k", Seq("x.id", "y.id AS other"))
    during(left, right, reader) {
      right.feed(Row(1, 1, "i"), Row(2, 1, "i"))
      reader.settle()
      def loaded: Seq[Option[Long]] = {
        reader.settle()
        reader.running.recentProgress.filter(_.durationMs.containsKey("addBatch")).last.sources.toSeq.map {
          source => Option(source.metrics.get("loadedRows")).map(_.toLong)
        }
      }
      left.feed(Row(1, 1, "i"))
      assert(loaded == Seq(None, Some(2)))
      left.feed(Row(2, 1, "i"))
      assert(loaded == Seq(None, Some(0)))
      right.feed(Row(3, 1, "i"))
      assert(loaded == Seq(Some(2), None))
    }
  }

  // Rejected before anything runs.

  test("an invalid limit is rejected when the stream is created, and the error shows a valid one") {
    val it = orders()
    during(it)(it.feed(Row(1, 1, "i")))
    for {
      option <- Seq("maxVersionsPerTrigger", "maxRowsPerTrigger")
      value <- Seq("0", "-1", "1.5", "many")
    } {
      val said = rejected("STREAMJOIN_OPTION")(
        spark.readStream.format("streamjoin").option(option, value).load(it.root)
      )
      assert(said.contains(s"""option("$option", 10)"""))
      rejected("STREAMJOIN_OPTION")(
        Frames.delta(
          spark,
          Seq("x" -> it.root, "y" -> it.root),
          "x.k = y.k",
          options = Map(option -> value)
        )
      )
    }
    rejected("STREAMJOIN_OPTION")(spark.read.format("streamjoin").option("version", -1).load(it.root))
  }

  test("complete mode, and update mode without op=, are rejected at start()") {
    def start(mode: String, op: Option[String]) = {
      val it = orders()
      val counts = it.stream
        .toDF()
        .groupBy("k")
        .agg(count(lit(1)).as("n"))
        .withColumn("op", lit("update"))
      val root = newFolder("a")
      val rows = if (op.isDefined) counts else counts.drop("op")
      val query = Arrangements
        .arrange(rows, root, Seq(Seq("k")), op, None, None)
        .writeStream
        .format("streamjoin")
        .option("path", root)
        .option("checkpointLocation", newFolder())
        .outputMode(mode)
        .start()
      try {
        it.stream.addData(Row(1, 1, "i"), Row(2, 1, "i"))
        query.processAllAvailable()
        rowsOf(root)
      } finally query.stop()
    }
    val complete = rejected("STREAMJOIN_ARRANGEMENT_OUTPUT_MODE.COMPLETE")(start("complete", Some("op")))
    assert(complete.contains("complete mode"))
    assert(complete.contains("outputMode(\"update\")"))
    rejected("STREAMJOIN_ARRANGEMENT_OUTPUT_MODE.COMPLETE")(start("complete", None))
    val update = rejected("STREAMJOIN_ARRANGEMENT_OUTPUT_MODE.UPDATE")(start("update", None))
    assert(update.contains("update mode"))
    assert(update.contains("as keys, and op"))
    assert(start("update", Some("op")) == Seq("1 2"))
  }
}
