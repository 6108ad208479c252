package org.apache.spark.sql.streamjoin.observe.publish

import java.nio.file.{Files, Path}

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}
import org.apache.hadoop.fs.{Path => HadoopPath}
import org.scalatest.concurrent.Eventually._
import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.time.SpanSugar._

import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.streamjoin.JoinTest
import org.apache.spark.sql.streamjoin.observe.publish.page.BatchSeries
import org.apache.spark.sql.streamjoin.observe.read.{FiguresHistory, HistoryFile}

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

  test("the figures of a chain's batches, while it runs and afterwards") {
    val history = Files.createTempDirectory("streamjoin-history")
    withConf("spark.streamjoin.history" -> history.toString) {
      running(job(ofThree("left_outer"))) { job =>
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
        def kept = written(history.resolve(id)).flatMap(lines).map(_.path("batch").asLong)
        assert(eventually(timeout(20.seconds))(kept.head) == 0)
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
          assert(kept == (0L to seen))
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
    val rejected = intercept[AnalysisException](recent("nothing"))
    assert(rejected.getCondition == "STREAMJOIN_TABLE_FUNCTION.UNKNOWN_QUERY")
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

  testLong("hints, which a report has too, contain no values of keys") {
    withConf("spark.streamjoin.ui.showKeys" -> "true") {
      running(job(hourly())) { job =>
        job.feed((0 until 20).flatMap(n => Seq(o(s"a$n", "10:00", n), d(s" a$n", "10:10", n))): _*)
        val hint = eventually(timeout(20.seconds)) {
          recent(job.streaming.id.toString).map(_.path("operators").path(0).path("hints").path(0).asText).last
        }
        assert(hint.contains("keys of both differ only in blanks. Make them equal"))
      }
    }
  }

  test("nothing is worked out where nothing shows or keeps figures") {
    withConf("spark.streamjoin.ui.enabled" -> "false") {
      running(job(hourly())) { job =>
        job.feed(o("a", "10:00", 1), d("a", "10:10", 2))
        assert(recent(job.streaming.id.toString).isEmpty)
      }
    }
  }

  private def written(folder: Path): Seq[Path] = {
    val files = Files.list(folder)
    try files.iterator.asScala.toSeq.filterNot(_.getFileName.toString.startsWith(".")).sorted
    finally files.close()
  }

  private def names(folder: Path): Seq[String] = written(folder).map(_.getFileName.toString)

  private def newHistory(folder: Path, most: Int = 10000, maxAge: Option[Long] = None): FiguresHistory =
    new FiguresHistory(new HadoopPath(folder.toUri), spark.sessionState.newHadoopConf(), most, maxAge)

  private val Interval = 10L * 1000 * 1000 * 1000

  test("an hourly job keeps batches, however many runs and files that takes") {
    val folder = Files.createTempDirectory("streamjoin-history")
    for (run <- 0 to 250) {
      val history = newHistory(folder, most = 100)
      history.add(s"""{"batch":$run}""", 0, 1000L + run)
      history.write(1000L + run)
      assert(written(folder).size <= 28)
    }
    val kept = written(folder).flatMap(lines).map(_.path("batch").asInt)
    assert(kept == (kept.head to 250))
    assert(kept.size >= 100 && kept.size < 200)
    assert(names(folder).last == "000000000250-1-1250.jsonl")
  }

  testLong("each line is written four times at most, and there are few files") {
    val folder = Files.createTempDirectory("streamjoin-history")
    val history = newHistory(folder)
    val written = scala.collection.mutable.Map.empty[String, Long].withDefaultValue(0L)
    (0 until 2000).foreach { batch =>
      history.add(f"""{"batch":$batch%010d}""", batch * Interval, batch)
      names(folder).foreach(name => written(name) = Files.size(folder.resolve(name)))
    }
    assert(names(folder) == (0 until 2).map(n => f"${n * 1000}%012d-1000-${n * 1000 + 999}.jsonl"))
    val line = Files.size(folder.resolve(names(folder).head)) / 1000
    assert(written.values.sum <= 4 * 2000 * line)
  }

  test("lines of one interval are one file; what a run wrote last is there when it ends") {
    val folder = Files.createTempDirectory("streamjoin-history")
    val history = newHistory(folder)
    (0 until 50).foreach(batch => history.add(s"""{"batch":$batch}""", batch, batch))
    assert(names(folder) == Seq("000000000000-1-0.jsonl"))
    history.add("""{"batch":50}""", Interval, 50)
    assert(names(folder) == Seq("000000000000-1-0.jsonl", "000000000001-50-50.jsonl"))
    history.add("""{"batch":51}""", Interval, 51)
    history.write(52)
    assert(names(folder).last == "000000000051-1-52.jsonl")
    assert(written(folder).flatMap(lines).map(_.path("batch").asInt) == (0 to 51))
  }

  test("a history is bounded by batches and by age, and continues from an older version's files") {
    val folder = Files.createTempDirectory("streamjoin-history")
    def older(first: Int, batches: Range): Unit =
      Files.writeString(
        folder.resolve(f"$first%010d.jsonl"),
        batches.map(n => s"{\"batch\":$n}\n").mkString
      ): Unit
    older(0, 0 until 1000)
    older(1000, 1000 until 1500)
    older(1500, 1500 until 1501)
    val history = newHistory(folder, most = 1200)
    history.add("""{"batch":1501}""", 0, 5)
    assert(written(folder).flatMap(lines).map(_.path("batch").asInt) == (0 to 1501))
    assert(names(folder).forall(_.matches("\\d{12}-\\d+-\\d+\\.jsonl")))
    (1502 until 4000).foreach(batch => history.add(s"""{"batch":$batch}""", batch * Interval, 5))
    val kept = written(folder).flatMap(lines).map(_.path("batch").asInt)
    assert(kept == (kept.head until 4000) && kept.size >= 1200 && kept.size < 2300)

    newHistory(folder, maxAge = Some(1000)).add("""{"batch":4000}""", 0, 5000)
    assert(names(folder) == Seq("000000004000-1-5000.jsonl"))
  }

  test("what a run that ended within a merge has left is read once, and removed") {
    val folder = Files.createTempDirectory("streamjoin-history")
    def file(name: String, batches: Range): Unit =
      Files.writeString(folder.resolve(name), batches.map(n => s"{\"batch\":$n}\n").mkString): Unit
    file("000000000000-10-9.jsonl", 0 until 10)
    file("000000000003-1-3.jsonl", 3 until 4)
    file("000000000009-1-9.jsonl", 9 until 10)
    assert(
      HistoryFile.inOrder(names(folder).flatMap(HistoryFile.of)).map(_.name) == Seq("000000000000-10-9.jsonl")
    )
    newHistory(folder).add("""{"batch":10}""", 0, 10)
    assert(names(folder) == Seq("000000000000-10-9.jsonl", "000000000010-1-10.jsonl"))
  }

  test("a history that cannot be written stops no query, and has what came once it can") {
    val folder = Files.createTempDirectory("streamjoin-history")
    Files.delete(folder)
    Files.createFile(folder)
    val history = newHistory(folder)
    (0 until 3).foreach(batch => intercept[java.io.IOException](history.add(s"""{"batch":$batch}""", 0, 0)))
    Files.delete(folder)
    history.add("""{"batch":3}""", 0, 0)
    assert(written(folder).flatMap(lines).map(_.path("batch").asInt) == (0 to 3))

    val noFolder = Files.createTempFile("streamjoin", "file")
    withConf("spark.streamjoin.history" -> noFolder.toString) {
      running(job(hourly())) { job =>
        assert(job.feed(o("a", "10:00", 1), d("a", "10:10", 2)).nonEmpty)
      }
    }
  }

  test("the series of a query's batches is bounded, and loses none") {
    val series = new BatchSeries(most = 100)
    def batch(number: Int, rows: Int) = BatchSeries.parse(
      s"""{"id":"q","batch":$number,"timestamp":${number * 10},"phasesMs":{"triggerExecution":${number % 7}},
         |"operators":[{"operator":1,"kind":"k","title":"t","rowsOut":1,"rowsKept":${number % 5},"tasks":{"rows":[1]},
         |"hints":["h"],"inputs":[{"side":"left","name":"o","rowsIn":$rows,
         |"columns":[{"name":"o.t","watermark":$number}]}]}]}""".stripMargin
    )
    (0 until 1000).foreach(number => series.add(batch(number, 2)))
    val points = series.lines.map(mapper.readTree)
    assert(points.size <= 100 && points.size > 50)
    assert(points.map(_.path("batches").asInt).sum == 1000)
    assert(
      points.map(_.path("firstBatch").asInt) == points
        .map(_.path("batch").asInt)
        .scanLeft(0)((_, n) => n + 1)
        .init
    )
    val operators = points.map(_.path("operators").get(0))
    assert(operators.map(_.path("rowsOut").asInt).sum == 1000)
    assert(operators.map(_.path("inputs").get(0).path("rowsIn").asInt).sum == 2000)
    assert(operators.forall(_.path("rowsKept").asInt == 4) && operators.forall(!_.has("tasks")))
    assert(points.init.forall(_.path("phasesMs").path("triggerExecution").asInt == 6))
    assert(points.last.findPath("watermark").asInt == 999)
    // A point that is stored and read again is the same one.
    val again = new BatchSeries(most = 100)
    points.foreach(again.add)
    assert(again.lines == series.lines)

    // A checkpoint that was put back.
    series.add(batch(500, 7))
    val after = series.lines.map(mapper.readTree)
    assert(after.last.path("batch").asInt == 500 && after.init.forall(_.path("firstBatch").asInt < 500))
  }
}
