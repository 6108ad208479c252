package org.apache.spark.sql.streamjoin.joins.table

import java.nio.file.{Files, Path}
import java.util.UUID
import java.util.concurrent.atomic.AtomicInteger

import org.apache.hadoop.fs.{Path => HadoopPath}
import org.scalatest.concurrent.Eventually._
import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.time.SpanSugar._

import org.apache.spark.sql.execution.streaming.runtime.MemoryStream
import org.apache.spark.sql.functions.expr
import org.apache.spark.sql.streamjoin.arrangement.HookedFileSystem
import org.apache.spark.sql.streamjoin.arrangement.maintain.Arrangements
import org.apache.spark.sql.streamjoin.arrangement.storage.{ArrangementFolder, CaughtUp}
import org.apache.spark.sql.streamjoin.{ArrangementTest, JoinTest, SparkTest}
import org.apache.spark.sql.{DataFrame, Encoders, Row}

/** When a stream begins to look up a table, and what the progress reports about it. */
class TableLoadingSuite extends AnyFunSuite with ArrangementTest {
  import ArrangementTest._

  private def people: Maintainer =
    maintainer("id INT, name STRING, op STRING", Seq(Seq("id")), op = Some("op"))

  private class LookUps(root: String, options: Map[String, String])(
      joined: (DataFrame, () => DataFrame) => DataFrame
  ) {
    val input: MemoryStream[Int] = MemoryStream[Int](Encoders.scalaInt, spark)
    private def table =
      spark.read.format("streamjoin").option("streamjoin.table", true).options(options).load(root)
    lazy val reader = new Reader(newFolder())(joined(input.toDF(), () => table))
    def found: Seq[Seq[String]] = reader.batches.values.toSeq.map(_.last.map(JoinTest.text).sorted)
  }

  private def caughtUp(of: Maintainer): Unit =
    eventually(timeout(20.seconds), interval(20.millis))(assert(CaughtUp.holds(of.folder)))

  test("the maintaining query records that it has read its sources to the end") {
    val table = people
    during(table) {
      caughtUp(table)
      assert(table.folder.newest == -1, "there was nothing to read")
      table.feed(Row(1, "John", "insert"))
      caughtUp(table)
      assert(!table.folder.manifest(0).tookAll, "an earlier run may have planned the batch")
      table.feed(Row(1, "Jane", "update"))
      assert(table.folder.manifest(1).tookAll)
    }
    val said = Path.of(table.root, "caught_up.json")
    Files.delete(said)
    assert(CaughtUp.holds(table.folder), "the version itself says so")
    during(table)(caughtUp(table))
    val id = table.folder.manifest(1).id
    assert(Files.readString(said) == s"""{"version":1,"number":1,"caught_up":true,"id":"$id"}""")
    CaughtUp.write(table.folder, CaughtUp(1, isSo = false, Some(id)))
    assert(!CaughtUp.holds(table.folder))
    CaughtUp.write(table.folder, CaughtUp(1, isSo = false, Some(UUID.randomUUID())))
    assert(CaughtUp.holds(table.folder), "the file is about another version with the number")
    CaughtUp.write(table.folder, CaughtUp(1, isSo = false))
    assert(!CaughtUp.holds(table.folder), "an earlier release wrote no id")
    CaughtUp.write(table.folder, CaughtUp(0, isSo = false))
    assert(CaughtUp.holds(table.folder), "the file is about an older version")
    for (damaged <- Seq("", "{", "{}")) {
      SparkTest.overwrite(said, damaged)
      rejected("STREAMJOIN_ARRANGEMENT_UNREADABLE")(CaughtUp.holds(table.folder))
    }
    during(table)(caughtUp(table))
  }

  test("a batch with a limit has not read everything") {
    val table = people
    during(table)((1 to 3).foreach(id => table.feed(Row(id, "x", "insert"))))
    val copy = newFolder("copy")
    val query = Arrangements
      .arrange(
        spark.readStream
          .format("streamjoin")
          .option("maxVersionsPerTrigger", 1)
          .load(table.root)
          .drop("_version"),
        copy,
        Seq(Seq("id")),
        None,
        Some("_diff"),
        None
      )
      .writeStream
      .format("streamjoin")
      .option("path", copy)
      .option("checkpointLocation", newFolder())
    def folder = ArrangementFolder.open(ArrangementFolder.root(copy))
    val first = query.start()
    try first.processAllAvailable()
    finally first.stop()
    val before = folder.newest
    during(table)((4 to 6).foreach(id => table.feed(Row(id, "x", "insert"))))
    val second = query.start()
    try second.processAllAvailable()
    finally second.stop()
    assert((before + 1 to before + 3).map(folder.manifest(_).tookAll) == Seq(false, false, true))
  }

  test("the first batch waits until the table has caught up; later runs do not wait") {
    val table = people
    during(table)(table.feed(Row(1, "John", "insert")))
    CaughtUp.write(table.folder, CaughtUp(0, isSo = false))
    val query = new LookUps(table.root, Map("atLeast" -> "caught up"))((rows, table) =>
      rows.join(table(), expr("value = id"), "left_outer").select("value", "name")
    )
    query.input.addData(1)
    during(query.reader) {
      eventually(timeout(20.seconds)) {
        val message = query.reader.running.status.message
        assert(message.startsWith("Waiting until"), message)
        assert(message.contains("newest version is 0"), message)
      }
      table.stream.addData(Row(1, "Jane", "update"))
      during(table) {
        query.reader.settle()
        assert(query.found == Seq(Seq("1 Jane")))
      }
    }
    CaughtUp.write(table.folder, CaughtUp(1, isSo = false))
    query.input.addData(2)
    during(query.reader) {
      query.reader.settle()
      assert(query.found == Seq(Seq("1 Jane"), Seq("2 -")))
    }
  }

  test("the progress has figures for each look-up") {
    val table = people
    val query = new LookUps(table.root, Map.empty)((rows, table) =>
      rows
        .join(table(), expr("value = id"))
        .join(table().toDF("key", "other"), expr("value + 1 = key"), "left_outer")
        .select("value", "name", "other")
    )
    val name = s"lookUp.${Path.of(table.root).getFileName}"
    during(table) {
      table.feed(Row(1, "John", "insert"), Row(2, "Jane", "insert"))
      query.input.addData(1, 2, 3)
      during(query.reader) {
        query.reader.settle()
        assert(query.found == Seq(Seq("1 John Jane", "2 Jane -")))
        val progress = query.reader.running.recentProgress.filter(_.numInputRows > 0).last
        val figures = Seq("version", "lookedUpRows", "matchedRows", "paddedRows").map { figure =>
          Seq(name, s"$name.2").map(progress.observedMetrics.get(_).getAs[Long](figure))
        }
        assert(figures == Seq(Seq(0, 0), Seq(3, 2), Seq(2, 1), Seq(0, 1)))
        assert(progress.observedMetrics.get(name).getAs[Long]("loadedRows") > 0)
        assert(progress.json.contains("\"lookedUpRows\":3"))
      }
    }
  }

  test("the files that a batch reads for its look-ups are as many for each of them") {
    val table = people
    def descriptionsReadFor(lookUps: Int): Int = {
      val query = new LookUps(table.root, Map.empty)((rows, table) =>
        (1 to lookUps).foldLeft(rows) { (joined, n) =>
          joined.join(table().toDF(s"id$n", s"name$n"), expr(s"value = id$n"))
        }
      )
      query.input.addData(1)
      during(query.reader) {
        query.reader.settle()
        DescriptionReads.count.set(0)
        query.input.addData(1)
        query.reader.settle()
        assert(query.found.last.size == 1)
        DescriptionReads.count.get
      }
    }
    during(table) {
      table.feed(Row(1, "John", "insert"))
      withConf(
        "fs.file.impl" -> classOf[DescriptionReads].getName,
        "fs.file.impl.disable.cache" -> "true"
      ) {
        val one = descriptionsReadFor(1)
        assert(one > 0)
        assert(descriptionsReadFor(5) <= 5 * one)
      }
    }
  }
}

/** Counts how often the description of an arrangement is read. */
class DescriptionReads extends HookedFileSystem {
  override protected def before(call: String, path: HadoopPath): Unit =
    if (call == "open" && path.getName == ArrangementFolder.MetaFile)
      DescriptionReads.count.incrementAndGet(): Unit
}

object DescriptionReads {
  val count = new AtomicInteger
}
