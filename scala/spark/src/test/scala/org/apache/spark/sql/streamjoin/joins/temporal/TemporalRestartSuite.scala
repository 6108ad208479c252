package org.apache.spark.sql.streamjoin.joins.temporal

import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.streamjoin.{Frames, JoinTest, SparkTest}
import org.apache.spark.sql.{AnalysisException, DataFrame, Row}

/**
 * A temporal join that stops and starts, or runs a batch again, gives the rows of an uninterrupted
 * run.
 */
class TemporalRestartSuite extends AnyFunSuite with TemporalTest {
  import JoinTest._

  private val rocksDb = "spark.sql.streaming.stateStore.providerClass" ->
    "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
  private val format = "spark.sql.streaming.stateStore.checkpointFormatVersion" -> "2"
  private val noMemory = "spark.streamjoin.indexMemory" -> "1"

  private val queries = Seq[(String, Streams => DataFrame)](
    "temporal" -> values(temporal()),
    "temporal with a history" -> values(temporal(history = Some("20 minutes"))),
    "nearest" -> values { streams =>
      Frames.closest(
        streams
          .marked("o")
          .join(streams.marked("d"), org.apache.spark.sql.functions.expr("o.id = d.id"), "left_outer"),
        "t",
        "t",
        "nearest",
        allowsExact = true,
        Some("15 minutes")
      )
    }
  )

  /** Ties, deletes, keys that come back, late rows on both sides. */
  private val story: Seq[Seq[(String, Row)]] = {
    val random = new Random(11)
    (0 until (if (SparkTest.isLong) 6 else 5)).map { batch =>
      def time = f"1${batch / 3}:${batch % 3 * 20 + random.nextInt(25) min 59}%02d"
      Seq.fill(12)(o(s"k${random.nextInt(4)}", time, random.nextInt(1000))) ++
        Seq.fill(8)(d(s"k${random.nextInt(4)}", time, random.nextInt(1000) - 250))
    } :+ end("20:00") :+ end("21:00")
  }

  private def uninterrupted(query: Streams => DataFrame): Seq[String] =
    running(job(query)) { job =>
      story.foreach(rows => job.feed(rows: _*))
      job.seen.flatMap(_.rows).toSeq
    }

  private val stores = Seq[(String, Seq[(String, String)])](
    "default store" -> Nil,
    "default store, no memory for the index" -> Seq(noMemory),
    "RocksDB, format 2, no memory for the index" -> Seq(rocksDb, format, noMemory)
  )

  /** `make test` stops and starts the first join, and runs the batches of the last one again. */
  for (((name, query), number) <- queries.zipWithIndex) {
    lazy val expected = uninterrupted(query)
    val (stops, repeats) = (SparkTest.isLong || number == 0, SparkTest.isLong || number == queries.size - 1)

    for ((store, settings) <- if (stops) SparkTest.part(stores, every = 3, from = 2) else Nil)
      test(s"$name: stopped and started after every batch, $store") {
        assert(expected.size > 30)
        assert(expected.count(_.endsWith("-")) > 5)
        assert(expected.exists(!_.endsWith("-")))
        withConf(settings: _*) {
          running(job(query)) { job =>
            story.foreach { rows =>
              job.feed(rows: _*)
              job.restart()
            }
            assert(job.seen.flatMap(_.rows).toSeq == expected)
          }
        }
      }

    if (repeats) test(s"$name: every batch runs again, with its rows in another order") {
      val again = job(query)
      again.order = new Random(3).shuffle(_)
      running(again) { job =>
        story.foreach { rows =>
          job.feed(rows: _*)
          job.redoLast()
        }
        val byBatch = job.seen.groupBy(_.id).toSeq.sortBy(_._1).map(_._2)
        assert(byBatch.forall(_.map(_.rows).distinct.size == 1), "in the same order, too")
        assert(byBatch.flatMap(_.head.rows).sorted == expected.sorted)
      }
    }
  }

  test("a join other than the one of the checkpoint is rejected, and the checkpoint stays unchanged") {
    val old = job(values(temporal()))
    running(old)(_.feed(begin: _*))
    val before = listing(old)
    for (
      (changed, what) <- Seq[(Streams => DataFrame, String)](
        values(temporal("inner")) -> "join_type",
        values(temporal(history = Some("1 hour"))) -> "history_micros",
        values(temporal(on = "o.id = d.id AND o.v < d.v")) -> "condition",
        values(temporal(on = "upper(o.id) = d.id")) -> "equality",
        values(asof()) -> "join",
        values(hourly("left_outer")) -> "kind"
      )
    ) {
      val next = old.successor(changed)
      val error = intercept[AnalysisException](
        try next.start()
        finally next.stop()
      )
      assert(error.getCondition == "STREAMJOIN_CHECKPOINT_CHANGED", what)
      assert(error.getMessage.contains(what), error.getMessage)
      assert(listing(old) == before)
    }
    // Both watermarks are 12:00: the two rows that waited at 10:00 are emitted.
    running(old)(job => assert(job.feed(end("12:00"): _*) == Seq("1 -", "2 -")))
  }
}
