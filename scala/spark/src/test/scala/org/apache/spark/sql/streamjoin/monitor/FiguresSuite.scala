package org.apache.spark.sql.streamjoin.monitor

import java.nio.file.{Files, Path}

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}
import org.scalatest.concurrent.Eventually._
import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.time.SpanSugar._

import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.functions.expr
import org.apache.spark.sql.streamjoin.JoinTest

/** The figures of each batch: in this driver, and in the files of the history. */
class FiguresSuite extends AnyFunSuite with JoinTest {
  import JoinTest._

  private val mapper = new ObjectMapper

  private def recent(query: String): Seq[JsonNode] =
    spark
      .sql(s"SELECT * FROM sj_figures('$query')")
      .collect()
      .toSeq
      .map(row => mapper.readTree(row.getString(0)))

  private def lines(file: Path): Seq[JsonNode] = Files.readAllLines(file).asScala.toSeq.map(mapper.readTree)

  private def chain(streams: Streams) = streams
    .marked("o")
    .join(streams.marked("d"), expr(Hourly), "left_outer")
    .join(streams.marked("e"), expr("o.id = e.id AND e.t BETWEEN o.t AND o.t + INTERVAL 1 HOUR"))
    .selectExpr("o.v")

  test("the figures of a chain's batches, while it runs and afterwards") {
    val history = Files.createTempDirectory("streamjoin-history")
    withConf("spark.streamjoin.history" -> history.toString) {
      running(job(chain)) { job =>
        job.feed(o("a", "10:00", 1), o("b", "10:20", 2), d("a", "10:30", 3), "e" -> row("a", "10:40"))
        val id = job.streaming.id.toString
        val figures = eventually(timeout(20.seconds)) {
          val found = recent(id)
          assert(found.nonEmpty)
          found.last
        }
        assert(figures.path("operators").asScala.map(_.path("operator").asInt).toSeq == Seq(2, 1))
        val first = figures.path("operators").get(1)
        assert(first.path("title").asText == "left outer interval join")
        assert(first.path("rowsKept").asLong == 3)
        assert(first.path("tasks").path("rows").asScala.map(_.asLong).sum == 3)
        val orders = first.path("inputs").get(0)
        assert(orders.path("name").asText == "o")
        val time = orders.path("columns").get(0)
        assert(time.path("heldBy").asText == "o")
        assert(time.path("newest").asLong - time.path("watermark").asLong == 0)
        assert(orders.path("leavesAfter").asLong - orders.path("oldest").asLong == 3600000)
        assert(orders.path("leaves").get(0).path("postponeMs").asLong == 3600000)
        // The match is half an hour apart; an hour is allowed.
        val distances = first.path("distances")
        assert(distances.path("of").asText == "d.t - o.t")
        assert(distances.path("lowestMs").asLong == 0 && distances.path("highestMs").asLong == 3600000)
        val bucket = distances.path("buckets").get(0)
        assert(bucket.path("fromMs").asLong <= 1800000 && bucket.path("toMs").asLong > 1800000)
        assert(bucket.path("pairs").asLong == 1)
        assert(figures.path("operators").get(0).path("inputs").get(0).path("below").get(0).asInt == 1)

        // The first batch is in the history at once, the others when the query has stopped.
        val file = history.resolve(id).resolve("0000000000.jsonl")
        assert(lines(file).map(_.path("batch").asLong).head == 0)
        job.feed(o("c", "10:50", 1))
        // 20 minutes behind the newest of the batch before; later than that is late.
        job.feed(o("c", "10:30", 1))
        eventually(timeout(20.seconds)) {
          val late = recent(id).flatMap(
            _.path("operators").get(1).path("inputs").get(0).findValues("lateness").asScala
          )
          assert(late.exists { lateness =>
            val counted = lateness
              .path("buckets")
              .asScala
              .map(each => each.path("fromMs").asLong -> each.path("rows").asLong)
            lateness.path("delayMs").asLong == 0 &&
            counted.exists { case (from, rows) => from > 900000 && from <= 1200000 && rows == 1 }
          })
        }
        val seen = job.seen.last.id
        job.stop()
        eventually(timeout(20.seconds)) {
          assert(lines(file).map(_.path("batch").asLong) == (0L to seen))
        }
        assert(recent(id).last.path("batch").asLong == seen)
      }
    }
  }

  test("batches of a query without joins have no figures") {
    val rows = spark.readStream.format("rate").load().writeStream.format("noop")
    val query = rows.start()
    try {
      query.processAllAvailable()
      assert(recent(query.id.toString).isEmpty)
    } finally query.stop()
    val refused = intercept[AnalysisException](recent("nothing"))
    assert(refused.getCondition == "STREAMJOIN_TABLE_FUNCTION")
  }

  test("values of hot keys are left out unless they are asked for") {
    val many = (0 until 2000).map(n => o(if (n % 2 == 0) "secret" else s"$n", "10:00", n))
    def hot(showKeys: String): JsonNode =
      withConf("spark.streamjoin.ui.showKeys" -> showKeys) {
        running(job(hourly())) { job =>
          job.feed(many: _*)
          eventually(timeout(20.seconds)) {
            val found = recent(job.streaming.id.toString).map(_.findPath("hotKeys").path(0))
            found.filterNot(_.isMissingNode).head
          }
        }
      }
    assert(hot("false").fieldNames.asScala.toSeq == Seq("share"))
    assert(hot("true").path("key").asText == "secret")
  }

  test("nothing is worked out where nothing shows or keeps figures") {
    withConf("spark.streamjoin.ui.enabled" -> "false") {
      running(job(hourly())) { job =>
        job.feed(o("a", "10:00", 1), d("a", "10:10", 2))
        assert(recent(job.streaming.id.toString).isEmpty)
      }
    }
  }

  test("a history is bounded, and one that cannot be written stops no query") {
    val folder = Files.createTempDirectory("streamjoin-history")
    val conf = spark.sessionState.newHadoopConf()
    val history = new FiguresHistory(new org.apache.hadoop.fs.Path(folder.toUri), conf, 2000)
    (0 until 10000).foreach(batch => history.add(batch, s"""{"batch":$batch}""", 0))
    history.write()
    val there = Files.list(folder).iterator.asScala.toSeq.filter(_.toString.endsWith(".jsonl")).sorted
    assert(
      there.map(_.getFileName.toString) == Seq("0000007000.jsonl", "0000008000.jsonl", "0000009000.jsonl")
    )
    assert(there.flatMap(lines).map(_.path("batch").asInt) == (7000 until 10000))

    val noFolder = Files.createTempFile("streamjoin", "file")
    withConf("spark.streamjoin.history" -> noFolder.toString) {
      running(job(hourly())) { job =>
        assert(job.feed(o("a", "10:00", 1), d("a", "10:10", 2)).nonEmpty)
      }
    }
  }
}
