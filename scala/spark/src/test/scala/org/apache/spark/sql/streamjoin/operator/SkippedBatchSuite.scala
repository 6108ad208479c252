package org.apache.spark.sql.streamjoin.operator

import org.scalatest.Assertion
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.functions.expr
import org.apache.spark.sql.streaming.StreamingQueryException
import org.apache.spark.sql.streamjoin.base.StreamJoinConf
import org.apache.spark.sql.streamjoin.{Frames, JoinTest, SparkTest}

import streamjoin.core.{JoinWindow, JoinWindows, Side}

/**
 * A batch that has reached the sink and was not committed, as after a kill. A sink that has its
 * rows skips it, so no task runs: what the attempt before has written to the state counts, and not
 * what the query would write by its settings of now.
 */
class SkippedBatchSuite extends AnyFunSuite with TakeOverTest {
  import JoinTest._

  private def partitions(number: Int) = StreamJoinConf.Partitions.key -> number.toString

  private val query: Query = picked("full_outer")

  private lazy val expected: Seq[String] = running(job(query)) { job =>
    story.foreach(fed(job, _))
    received(job)
  }

  // The last batch is one with rows.
  private val noOthers = "spark.sql.streaming.noDataMicroBatches.enabled" -> "false"

  /** The last batch is planned again, and skipped. */
  private def skippingLast(job: Job, settings: (String, String)*): Job = {
    job.skipped = Set(job.uncommit())
    starting(job, noOthers +: settings: _*)
  }

  private def continues(job: Job, from: Int): Assertion = {
    starting(job)
    story.drop(from).foreach(fed(job, _))
    assert(received(job) == expected)
  }

  private val stores = Seq[(String, Seq[(String, String)])]("default store" -> Nil, "RocksDB" -> Seq(rocksDb))

  for ((name, settings) <- SparkTest.part(stores, every = 2))
    test(s"another number of partitions counts from the batch after, $name") {
      withConf(settings: _*)(running(job(query)) { job =>
        starting(job, noOthers)
        story.take(3).foreach(fed(job, _))
        skippingLast(job, partitions(5))
        fed(job, story(3))
        assert(job.joins.map(_.numPartitions) == Seq(5))
        continues(job, from = 4)
      })
    }

  for ((name, settings) <- SparkTest.part(stores, every = 2, from = 1))
    test(s"a number of partitions that the batch has run with counts, $name") {
      withConf(settings: _*)(running(job(query)) { job =>
        story.take(3).foreach(fed(job, _))
        starting(job, noOthers, partitions(5))
        fed(job, story(3))
        skippingLast(job, partitions(2))
        fed(job, story(4))
        assert(job.joins.map(_.numPartitions) == Seq(2))
        continues(job, from = 5)
      })
    }

  testLong("another state store counts from the batch after") {
    running(job(query)) { job =>
      starting(job, noOthers)
      story.take(3).foreach(fed(job, _))
      skippingLast(job, rocksDb)
      fed(job, story(3))
      continues(job, from = 4)
    }
  }

  test("the first batch belongs to the query and the settings that have run it") {
    val wanted = expected
    val first = job(query)
    starting(first, noOthers, partitions(5))
    fed(first, story.head)
    val other = first.stop().successor(picked("inner"))
    other.skipped = Set(first.uncommit())
    running(other) { job =>
      val failed = intercept[StreamingQueryException](fed(job, story(1)))
      assert(failed.getMessage.contains("STREAMJOIN_CHECKPOINT_CHANGED"), failed)
    }
    val next = other.successor(query)
    running(next) { job =>
      story.drop(2).foreach(fed(job, _))
      assert(job.joins.map(_.numPartitions) == Seq(5))
    }
    assert(Seq(first, next).flatMap(_.seen).flatMap(_.rows).sorted == wanted)
  }

  test("rows in the order of time wait for those that the join below has kept") {
    val hour = JoinWindows(Map(Side.Right -> JoinWindow(60L * 60 * 1000000, isFollowing = true)))
    def inOrder(streams: Streams) = Frames
      .windows(streams.marked("o").join(streams.marked("d"), expr("o.id = d.id")), hour)
      .selectExpr("rowtime", "o.v AS a", "d.v AS b")
    running(job(inOrder(_))) { job =>
      starting(job, noOthers)
      job.feed(o("a", "10:00", 1), d("x", "10:00"))
      for (time <- Seq("10:30", "10:31")) job.feed(o("y", time), d("z", time))
      skippingLast(job)
      for (time <- Seq("10:32", "10:33")) job.feed(o("y", time), d("z", time))
      job.feed(d("a", "10:40", 2))
      job.feed(o("y", "12:00"), d("z", "12:00"))
      job.feed(o("y", "12:01"), d("z", "12:01"))
      assert(received(job) == Seq("10:00 1 2"))
      assert(job.dropped == 0)
    }
  }

  private def isPadded(row: String): Boolean = row.split(' ').contains("-")

  test("a batch of a changed query belongs to that query, even if the old one is started again") {
    withConf(noOthers, exact) {
      running(job(picked("left_outer"))) { old =>
        story.take(3).foreach(fed(old, _))
        val changed = old.stop().successor(picked("inner"))
        running(changed)(fed(_, story(3)))
        val again = changed.successor(picked("left_outer"))
        again.skipped = Set(changed.uncommit())
        withConf("spark.streamjoin.evolve" -> "reject")(running(again) { job =>
          val failed = intercept[StreamingQueryException](fed(job, story(4)))
          assert(failed.getMessage.contains("STREAMJOIN_CHECKPOINT_CHANGED"), failed)
        })
        val next = again.successor(picked("inner"))
        running(next) { job =>
          story.drop(5).foreach(fed(job, _))
          val found = Seq(old, changed, next).flatMap(_.seen).flatMap(_.rows).sorted
          val pairs = expected.filterNot(isPadded)
          val padded = old.seen.flatMap(_.rows).filter(isPadded)
          assert(found == (pairs ++ padded).sorted)
        }
      }
    }
  }

  testLong("a take-over by another query starts again from the state of Spark") {
    val sparks = job(picked("left_outer"))
    starting(sparks, plain)
    story.take(3).foreach(fed(sparks, _))
    val attempt = sparks.stop().successor(picked("inner"))
    attempt.sink = batch => {
      batch.collect(): Unit
      throw new IllegalStateException("the sink fails")
    }
    starting(attempt, exact)
    intercept[StreamingQueryException](fed(attempt, story(3)))
    val next = attempt.stop().successor(picked("left_outer"))
    starting(next, exact)
    try {
      story.drop(4).foreach(fed(next, _))
      val found = Seq(sparks, next).flatMap(_.seen).flatMap(_.rows).sorted
      assert(found == ofSpark(picked("left_outer")))
    } finally next.stop(): Unit
  }
}
