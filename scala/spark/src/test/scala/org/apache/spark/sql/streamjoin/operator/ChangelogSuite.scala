package org.apache.spark.sql.streamjoin.operator

import java.nio.file.{Files, Path}

import scala.jdk.CollectionConverters._
import scala.util.Using

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.Row
import org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider
import org.apache.spark.sql.functions.{col, count, window}
import org.apache.spark.sql.streamjoin.{JoinTest, SparkTest}

/**
 * RocksDB commits our state as changelogs unless the user disables them; Spark's own operators keep
 * Spark's default.
 */
class ChangelogSuite extends AnyFunSuite with JoinTest {
  import JoinTest._

  private val setting = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"

  private def withRocksDb[T](more: (String, String)*)(body: => T): T =
    withConf(
      ("spark.sql.streaming.stateStore.providerClass" -> classOf[
        RocksDBStateStoreProvider
      ].getName) +: more: _*
    )(body)

  /** The kinds of files that an operator's stores have in the checkpoint: `changelog`, `zip`. */
  private def kinds(job: Job, operator: Long): Set[String] =
    Using.resource(Files.walk(Path.of(job.checkpoint, "state", s"$operator"))) {
      _.iterator.asScala
        .map(_.getFileName.toString)
        .filter(_.matches("\\d+(_[^.]*)?\\.(changelog|zip)"))
        .map(_.split('.').last)
        .toSet
    }

  private val story: Seq[Seq[(String, Row)]] = Seq(
    Seq(o("a", "10:00", 1), o("b", "10:10", 2), d("a", "10:20", 3)),
    Seq(o("c", "10:30", 4), d("b", "10:40", 5)),
    // W(d) = 12:30 evicts orders before 11:30.
    Seq(o("e", "12:00", 6), d("e", "12:30", 7)),
    // W(d) = 15:00 evicts orders before 14:00.
    Seq(o("z", "15:00", 8), d("y", "15:00", 9))
  )
  private val expected = Seq("1 3", "2 5", "4 -", "6 7")

  private def feedAll(job: Job): Seq[String] = story.flatMap(rows => job.feed(rows: _*)).sorted

  test("RocksDB commits the state of a join as changelogs by default") {
    withRocksDb()(running(job(picked())) { job =>
      assert(feedAll(job) == expected)
      assert(kinds(job, 1000) == Set("changelog"))
    })
  }

  testLong("a join without an equality uses changelogs too, though all tasks read its broadcast side") {
    val condition = "d.t BETWEEN o.t AND o.t + INTERVAL 1 HOUR"
    val query = job(picked(condition = condition))
    withRocksDb() {
      try {
        val out = story.flatMap { rows =>
          query.restart()
          query.feed(rows: _*)
        }
        assert(kinds(query, 1000) == Set("changelog"))
        assert(out.sorted == Seq("1 3", "1 5", "2 3", "2 5", "4 5", "6 7", "8 9"))
      } finally query.stop()
    }
  }

  private val spellings = Seq(setting, setting.replace("changelogCheckpointing", "ChangelogCheckpointing"))

  for (key <- SparkTest.part(spellings, every = 2))
    test(s"a join writes no changelogs if the user disables them: $key") {
      withRocksDb(key -> "false")(running(job(picked())) { job =>
        assert(feedAll(job) == expected)
        assert(kinds(job, 1000) == Set("zip"))
      })
    }

  for (format <- SparkTest.part(Seq("1", "2"), every = 2, from = 1))
    test(s"a checkpoint can switch to changelogs and back, format $format") {
      withRocksDb("spark.sql.streaming.stateStore.checkpointFormatVersion" -> format) {
        val job = this.job(picked())
        try {
          val out = story.zipWithIndex.flatMap { case (rows, at) =>
            if (at % 2 == 0) withConf(setting -> "false")(job.restart()) else job.restart()
            job.feed(rows: _*)
          }
          assert(out.sorted == expected)
          assert(kinds(job, 1000) == Set("changelog", "zip"))
        } finally job.stop()
      }
    }

  test("Spark's own operators in the same query keep Spark's default") {
    withRocksDb()(
      running(
        job(streams =>
          hourly()(streams)
            .groupBy(window(col("o.t"), "1 hour"))
            .agg(count("*").as("n"))
            .selectExpr("window.start", "n")
        )
      ) { job =>
        feedAll(job)
        assert(kinds(job, 1000) == Set("changelog"))
        assert(kinds(job, 0) == Set("zip"))
      }
    )
  }
}
