package org.apache.spark.sql.streamjoin.operator

import scala.collection.mutable

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.Row
import org.apache.spark.sql.streaming.StreamingQueryException
import org.apache.spark.sql.streamjoin.{CheckpointTest, JoinTest, SparkTest}

/** A query that stops and starts gives the rows of an uninterrupted run, on every kind of store. */
class RestartSuite extends AnyFunSuite with CheckpointTest {
  import JoinTest._

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

  // Watermarks have no delay: after a batch they are the newest times so far.
  private val story: Seq[Seq[(String, Row)]] = Seq(
    Seq(o("a", "10:00", 1), o("b", "10:00", 2), o("b", "10:01", 3), d("c", "10:10", 4)),
    Seq(o("c", "10:05", 5), d("a", "10:30", 6)),
    // W(d) = 11:10 evicts orders before 10:10.
    Seq(d("x", "11:10", 7), d("a", "10:40", 8)),
    // The order of 9:00 is late: W(o) = 10:05. Then W(o) = 10:40 evicts deliveries before 10:40.
    Seq(o("late", "09:00", 9), o("y", "10:40", 10), d("y", "11:20", 11)),
    // W(d) = 13:30 evicts orders before 12:30, W(o) = 12:00 deliveries before 12:00.
    Seq(o("z", "12:00", 12), d("z", "13:30", 13)),
    // W(o) = 20:00 evicts the delivery of 13:30.
    Seq(o("end", "20:00", 14), d("end", "20:00", 14))
  )

  private lazy val uninterrupted: Seq[String] =
    running(job(picked("full_outer")))(job => story.flatMap(rows => job.feed(rows: _*)))

  for ((name, settings) <- SparkTest.part(stores, every = 7, from = 2))
    test(s"stopped and started after every batch: $name") {
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

  for ((name, settings) <- SparkTest.part(stores.filter(_._1.contains("format 2")) :+ stores.head, every = 3))
    test(s"the last batch runs again every time: $name") {
      withConf(settings: _*) {
        running(job(picked("full_outer"))) { job =>
          story.foreach { rows =>
            job.feed(rows: _*)
            job.redoLast()
          }
          val once = job.seen.groupBy(_.id).toSeq.sortBy(_._1).map(_._2)
          assert(once.forall(_.map(_.rows.sorted).distinct.size == 1))
          assert(once.flatMap(_.head.rows).sorted == uninterrupted.sorted)
        }
      }
    }

  // The cap on rows.

  private val cap = "spark.streamjoin.maxAccumulatedRecords"

  test("a batch over the cap commits nothing, and the query goes on with a higher cap") {
    // One key, so that a single task has all rows.
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
        val messages = SparkTest.messages(error).mkString
        assert(messages.contains(cap))
        assert(messages.contains(" 5 "))
        assert(job.seen.map(_.id).toSeq == Seq(0L))
        val after = listing(job).filter { case (path, _) =>
          !path.startsWith("offsets") && !path.startsWith("sources")
        }
        assert(after.filter(_._1.startsWith("commits")) == before.filter(_._1.startsWith("commits")))
        // A task with few rows may have written its part of the next version; that part does not
        // count.
        assert(before.forall { case (path, content) => after.get(path).contains(content) })
      }
      // A second run fails in the same way.
      intercept[StreamingQueryException](running(capped)(_.settle())): Unit
    }
    withConf(cap -> "100") {
      running(capped) { job =>
        job.settle()
        val rows = job.seen.flatMap(_.rows).sorted.toSeq
        assert(rows == (1 to 6).map(n => s"$n 9"))
        assert(job.feed(d("a", "10:31", 10)) == (1 to 6).map(n => s"$n 10").sorted)
      }
    }
  }

  test("the cap counts both sides, and evicted rows make room") {
    withConf(cap -> "6") {
      running(job(picked("full_outer"))) { job =>
        job.feed(o("a", "10:00", 1), d("a", "10:00", 2))
        job.feed(d("a", "10:10", 3))
        // watermarks 18:00: all rows of 10 o'clock are evicted
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

  testLong("the same rows cut into other batches give the same output") {
    val rows = story.flatten.filterNot(_._2.getString(0) == "late")
    val outs = Seq(1, 2, 5, 100).map { size =>
      running(job(picked("full_outer"))) { job =>
        // Sorted by time over both streams, so that no row is late, whatever the batches.
        val out = mutable.ArrayBuffer.empty[String]
        rows.sortBy(_._2.getTimestamp(1).getTime).grouped(size).foreach(batch => out ++= job.feed(batch: _*))
        // Watermarks of 23:00 evict all that is left.
        out ++= job.feed(o("flush", "23:00", 99), d("flush", "23:00", 99))
        out.sorted.toSeq
      }
    }
    assert(outs.distinct.size == 1)
  }
}
