package org.apache.spark.sql.streamjoin.observe.read

import java.nio.file.{Files, Path}

import scala.jdk.CollectionConverters._

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.functions.expr
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streamjoin.checkpoint.{OperatorLog, OutlineLog}
import org.apache.spark.sql.streamjoin.joins.temporal.TemporalTest
import org.apache.spark.sql.streamjoin.{JoinTest, SparkTest}
import org.apache.spark.sql.types.TimestampType
import org.apache.spark.sql.{AnalysisException, DataFrame, Row}

/** The state of each kind of operator as a table, of queries that run and of checkpoints alone. */
class StateTableSuite extends AnyFunSuite with TemporalTest {
  import JoinTest._

  private val providers = Seq("HDFSBackedStateStoreProvider", "RocksDBStateStoreProvider")
    .map(name => s"org.apache.spark.sql.execution.streaming.state.$name")

  private def state(checkpoint: String, options: (String, String)*): DataFrame =
    spark.read.format("streamjoin").option("checkpoint", checkpoint).options(options.toMap).load()

  private def rows(table: DataFrame, columns: String*): Seq[String] =
    table.selectExpr(columns: _*).collect().map(text(_: Row)).sorted.toSeq

  private def files(checkpoint: String): Seq[String] = {
    val walked = Files.walk(Path.of(checkpoint))
    try walked.iterator.asScala.map(_.toString).toSeq.sorted
    finally walked.close()
  }

  for (provider <- SparkTest.part(providers, every = 2, from = 1))
    test(s"an interval join: rows, what has matched, and when a row leaves; ${provider.split('.').last}") {
      withConf(SQLConf.STATE_STORE_PROVIDER_CLASS.key -> provider) {
        running(job(hourly("left_outer"))) { job =>
          job.feed(o("a", "10:00", 1), o("b", "10:10", 2), d("a", "10:30", 3))
          val first = job.seen.last.id
          job.feed(o("c", "10:40", 4))
          assert(
            rows(state(job.checkpoint), "operator", "title", "side", "input", "columns", "partitions") == Seq(
              "1 left outer interval join left o id STRING,t TIMESTAMP,v INT 2",
              "1 left outer interval join right d id STRING,t TIMESTAMP,v INT 2"
            )
          )
          def all(options: (String, String)*) = state(job.checkpoint, Seq("operator" -> "1") ++ options: _*)
          // W(o) = 10:40, W(d) = 10:30: an order stays until W(d) is later than its time + 1 hour.
          assert(
            rows(
              all("side" -> "left"),
              "left.*",
              "time",
              "leaves_by",
              "leaves_after",
              "matched",
              "input"
            ) == Seq(
              "a 10:00 1 10:00 d.t 11:00 true o",
              "b 10:10 2 10:10 d.t 11:10 false o",
              "c 10:40 4 10:40 d.t 11:40 false o"
            )
          )
          assert(rows(all(), "side", "left.v", "right.v").size == 3)
          assert(
            rows(all("batch" -> first.toString), "side", "left.v", "right.v") ==
              Seq("left 1 -", "left 2 -", "right - 3")
          )
          val batches = rows(all(), "left.id", "batch", "segment IS NOT NULL", "kept_as")
          assert(batches.head.startsWith("a ") && batches.last == s"c ${first + 1} true row")
        }
      }
    }

  test("times as text, wherever they are in a row") {
    val query = (streams: Streams) =>
      streams
        .marked("o")
        .selectExpr(
          "id",
          "t",
          "v",
          "CAST(t AS TIMESTAMP_NTZ) AS n",
          "CAST(t AS DATE) AS d",
          "named_struct('t', t, 'v', v) AS s",
          "array(t) AS many",
          "map(CAST(t AS DATE), t) AS m",
          "CAST(NULL AS STRUCT<t: TIMESTAMP>) AS none"
        )
        .as("o")
        .join(streams.marked("d"), expr(Hourly), "left_outer")
        .selectExpr("d.v", "o.n", "o.d", "o.s", "o.many", "o.m", "o.none")
    val job = this.job(query)
    job.runOnce(o("a", "+58874-07-11T16:00:00.000250", 1))
    val options = Seq("operator" -> "1", "side" -> "left")
    assert(state(job.checkpoint, options: _*).schema("time").dataType == TimestampType)
    val table = state(job.checkpoint, options :+ "times" -> "Text": _*)
    val time = "+58874-07-11T16:00:00.00025"
    assert(
      rows(
        table,
        "time",
        "leaves_after",
        "left.t",
        "left.n",
        "left.d",
        "left.s.t",
        "left.many[0]",
        "map_keys(left.m)[0]",
        "map_values(left.m)[0]",
        "left.none",
        "left.id"
      ) == Seq(
        s"${time}Z +58874-07-11T17:00:00.00025Z ${time}Z $time +58874-07-11 ${time}Z ${time}Z +58874-07-11 ${time}Z - a"
      )
    )
    assert(rejected(job.checkpoint, "operator" -> "1", "times" -> "epoch").contains("It takes text"))
  }

  test("nothing in the checkpoint changes, and its query need not run") {
    val job = this.job(hourly())
    job.runOnce(o("a", "10:00", 1))
    val before = files(job.checkpoint)
    assert(rows(state(job.checkpoint, "operator" -> "1"), "left.v", "matched") == Seq("1 -"))
    assert(files(job.checkpoint) == before)
  }

  test("a row that waits for two watermarks leaves by the one that has further to go") {
    running(job(temporal())) { job =>
      job.feed(d("a", "10:00", 7))
      job.feed(o("a", "10:20", 1), d("b", "10:05", 8))
      val table = state(job.checkpoint, "operator" -> "1")
      assert(rows(table.where("side = 'left'"), "left.v", "leaves_by", "leaves_after") == Seq("1 d.t 10:20"))
      assert(rows(table.where("side = 'right'"), "right.v").nonEmpty)
      job.feed(o("z", "11:00"), d("z", "11:00"))
      job.feed(o("z", "11:30"), d("z", "11:30"))
      val newest = rows(state(job.checkpoint, "operator" -> "1"), "side", "right.id", "kept_as")
        .filter(_.contains("newest"))
      assert(newest.contains("right a newest of its key") && newest.contains("right b newest of its key"))
    }
  }

  test("a chain: each operator by its number") {
    running(job(ofThree(time = "d.t"))) { job =>
      job.feed(o("a", "10:00", 1), d("a", "10:30", 2))
      assert(rows(state(job.checkpoint), "operator", "input").size == 4)
      assert(rows(state(job.checkpoint, "operator" -> "2"), "side", "leaves_by") == Seq("left e.t"))
    }
  }

  private def rejected(checkpoint: String, options: (String, String)*): String = {
    val error = intercept[AnalysisException](state(checkpoint, options: _*).collect())
    s"${error.getCondition}: ${error.getMessage}"
  }

  test("what cannot be read is rejected with what to write") {
    val empty = newFolder()
    assert(rejected(empty).startsWith("STREAMJOIN_NO_STATE.NO_OPERATOR"))
    assert(files(empty) == Seq(empty))
    assert(rejected(" ").contains("It takes the path of a checkpoint"))
    val job = this.job(hourly())
    job.runOnce(o("a", "10:00", 1))
    assert(rejected(job.checkpoint, "operator" -> "2").contains("1 (inner interval join)"))
    assert(rejected(job.checkpoint, "operator" -> "x").contains("a whole number from 1 on"))
    assert(rejected(job.checkpoint, "operator" -> "1", "side" -> "up").contains("left or right"))
    assert(rejected(job.checkpoint, "operator" -> "1", "batch" -> "99").contains("a batch from 0 to"))
    assert(rejected(job.checkpoint, "side" -> "left").contains("operator"))
    def moved(from: String, to: String) =
      Files.move(Path.of(job.checkpoint, from), Path.of(job.checkpoint, to)): Unit
    moved("commits", "elsewhere")
    assert(rejected(job.checkpoint, "operator" -> "1").startsWith("STREAMJOIN_NO_STATE.NO_BATCH"))
    moved("elsewhere", "commits")
    moved(OutlineLog.Directory, "outlines")
    assert(rejected(job.checkpoint).startsWith("STREAMJOIN_NO_STATE.NOT_DESCRIBED"))
    moved(OperatorLog.Directory, "operators")
    assert(rejected(job.checkpoint).startsWith("STREAMJOIN_NO_STATE.NO_OPERATOR"))
    moved("outlines", OutlineLog.Directory)
    assert(rejected(job.checkpoint).startsWith("STREAMJOIN_NO_STATE.NO_PARTITIONS"))
    val unnamed = intercept[AnalysisException](
      spark.read.format("streamjoin").option("query", "nobody").load()
    )
    assert(unnamed.getMessage.contains("the id or the name of a query"))
  }
}
