package org.apache.spark.sql.streamjoin.operator

import org.scalatest.concurrent.Eventually._
import org.scalatest.concurrent.PatienceConfiguration.Timeout
import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.time.{Seconds, Span}

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.execution.streaming.state.StateStore
import org.apache.spark.sql.functions.expr
import org.apache.spark.sql.streamjoin.arrangement.index.{IndexRegistry, IndexSettings}
import org.apache.spark.sql.streamjoin.state.{ExecutorMemory, IndexCache}
import org.apache.spark.sql.streamjoin.{JoinTest, SparkTest}

/** The settings that limit memory, in running queries. */
class MemorySuite extends AnyFunSuite with JoinTest {

  /**
   * All indexes of arrangements count as one, from the first on; another suite may have made some.
   */
  private def ofArrangements: Int = if (IndexRegistry.isBegun) 1 else 0

  import JoinTest._

  private def near: Streams => DataFrame = streams =>
    streams
      .marked("o")
      .join(streams.marked("d"), expr("d.t BETWEEN o.t AND o.t + INTERVAL 10 MINUTES"))
      .selectExpr("o.v", "d.v")

  private def failing(job: Job)(rows: (String, org.apache.spark.sql.Row)*): Throwable =
    intercept[Exception](job.feed(rows: _*))

  test("a broadcast side beyond its cap fails the query, which resumes once the cap is raised") {
    val many = (0 until 5000).map(i => d("x" * 50 + i, "10:05", i))
    val began = job(near)
    val failed = withConf("spark.streamjoin.broadcastMemory" -> "200k") {
      began.start()
      try {
        assert(began.feed(o("a", "10:00", 1), d("b", "10:01", 2)) == Seq("1 2"))
        failing(began)(many: _*)
      } finally began.stop()
    }
    assert(SparkTest.errorClass(failed).contains("STREAMJOIN_BROADCAST_TOO_LARGE"), failed)
    val message = SparkTest.messages(failed).mkString("\n")
    assert(message.contains("of the right input"), message)
    assert(message.contains("allows 204800"), message)
    assert(began.seen.size == 1, "the failed batch must not emit rows")
    running(began) { again =>
      // No row is evicted: W(o) = 10:00, and W(d) = 10:05 evicts orders before 9:55.
      assert(again.settle().size == many.size)
      assert(again.state == ((1, 1 + many.size)))
      assert(again.feed(o("c", "10:05", 3)).size == many.size)
    }
  }

  test("the limit of the executor holds even if no task reaches its own budget") {
    def job = this.job(hourly())
    val rows = (0 until 300).map(i => o(s"$i", f"10:${i / 5}%02d", i))
    def segments(limit: Option[String]): (Long, Long) =
      withConf(limit.map("spark.streamjoin.executorIndexMemory" -> _).toSeq: _*) {
        running(job) { job =>
          job.feed(rows: _*)
          assert(job.feed((0 until 300).map(i => d(s"$i", "10:59", i)): _*).size == 300)
          (job.metric("segments"), job.metric("segmentsOnDisk"))
        }
      }
    val (all, onDisk) = segments(None)
    assert(all > 4)
    assert(onDisk == 0)
    assert(segments(Some("1k"))._2 > 0)
    val rejected = intercept[Exception](segments(Some("0")))
    assert(SparkTest.messages(rejected).exists(_.contains("must be positive")))
  }

  test("stopped queries use no index memory, even if their tasks failed") {
    withConf("spark.streamjoin.maxAccumulatedRecords" -> "50") {
      val failing = job(hourly())
      failing.start()
      try {
        failing.feed(o("a", "10:00", 1), d("a", "10:01", 2))
        assert(ExecutorMemory.ofProcess.indexes > 0)
        assert(ExecutorMemory.ofProcess.used > 0)
        intercept[Exception](failing.feed((0 until 500).map(i => o(s"$i", "10:00", i)): _*))
      } finally failing.stop()
    }
    running(job(near))(_.feed(o("a", "10:00", 1), d("a", "10:01", 2)))
    // A query stops before all tasks of its failed batch have ended.
    eventually(Timeout(Span(30, Seconds))) {
      StateStore.unloadAll()
      IndexCache.sweep()
      assert(ExecutorMemory.ofProcess.indexes == ofArrangements, "indexes are left")
      if (IndexRegistry.isBegun) IndexRegistry(IndexSettings()).clear()
      assert(ExecutorMemory.ofProcess.used == 0, "bytes are left")
    }
  }
}
