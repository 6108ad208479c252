package org.apache.spark.sql.streamjoin.evolve

import java.nio.file.{Files, Path}

import org.scalatest.concurrent.Eventually.{eventually, timeout}
import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.time.{Seconds, Span}

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.streaming.checkpointing.OffsetSeqLog
import org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution
import org.apache.spark.sql.streaming.StreamingQueryListener._
import org.apache.spark.sql.streaming.{StreamingQueryException, StreamingQueryListener}
import org.apache.spark.sql.streamjoin.JoinTest.Job
import org.apache.spark.sql.streamjoin.base.{NextOffsets, RunningQuery}

/** The first batch of a changed query that fails: whose it is, and who may run it again. */
class ChangedBatchSuite extends AnyFunSuite with EvolutionTest {
  import ChangedBatchSuite._

  private val changing =
    Seq("spark.sql.streaming.noDataMicroBatches.enabled" -> "false", Evolve -> "allow")

  /** What is fed is the next batch, which fails. */
  private def fails(job: Job, batch: Int): Throwable =
    running(job)(job => intercept[StreamingQueryException](feed(job, batch)).getCause)

  /** It fails once its offsets are written, before one of our operators is planned. */
  private def failsUnplanned(job: Job, batch: Int): Unit = {
    Planning.fails = true
    spark.experimental.extraOptimizations = Seq(Planning)
    try assert(fails(job, batch).getMessage == Planning.Message)
    finally {
      spark.experimental.extraOptimizations = Nil
      Planning.fails = false
    }
    assert(Files.exists(Path.of(job.checkpoint, "offsets", s"$batch")))
  }

  private def failsInSink(job: Job, batch: Int): Unit = {
    job.sink = _ => throw new IllegalStateException("no room")
    fails(job, batch): Unit
  }

  private def isMarked(job: Job, batch: Int): Boolean =
    Files.exists(Path.of(job.checkpoint, "batches-not-begun", s"$batch"))

  private def isPending(job: Job, query: ChangedQuery): Boolean =
    startError(job, query.frame).getCondition == "STREAMJOIN_CHECKPOINT_PENDING"

  /** The batch runs by this query, and so do the following ones. */
  private def continues(failed: Job, query: ChangedQuery, evolve: String = "allow"): Unit = {
    val oracle = new ChangedQueryOracle(noData = false)
    val expected = (0 until 7).map(batch => oracle.feed(if (batch < 4) half else query, rows(batch)))
    withConf(Evolve -> evolve)(running(failed.successor(query.frame)) { job =>
      job.settle()
      assert(job.seen.map(_.rows.sorted).toSeq == Seq(expected(4)))
      assert((5 until 7).map(feed(job, _)) == expected.drop(5))
      assert(!isMarked(job, 4))
    })
  }

  private val successors = Seq(
    ("the changed query", two, "allow"),
    ("the old query", half, "reject"),
    ("yet another query", hour, "allow")
  )

  for ((name, next, evolve) <- successors)
    test(s"a batch of a changed query that was only planned is run by $name") {
      withConf(changing: _*) {
        val changed = after(half.frame, 4).successor(two.frame)
        failsUnplanned(changed, 4)
        assert(isMarked(changed, 4))
        continues(changed, next, evolve)
      }
    }

  test("a batch that the old query has begun is not one of the changed query") {
    withConf(changing: _*) {
      val changed = after(half.frame, 4).successor(two.frame)
      failsUnplanned(changed, 4)
      val old = changed.successor(half.frame)
      old.sink = _ => throw new IllegalStateException("no room")
      withConf(Evolve -> "reject")(running(old)(job => intercept[StreamingQueryException](job.settle())))
      assert(!isMarked(old, 4))
      assert(isPending(old, two))
      continues(old, half, "reject")
    }
  }

  test("a changed query that has begun its batch is the only one to run it, next to the old one") {
    withConf(changing: _*) {
      val changed = after(half.frame, 4).successor(two.frame)
      failsInSink(changed, 4)
      assert(!isMarked(changed, 4))
      assert(isPending(changed, hour))
      continues(changed, two)
    }
  }

  testLong("a mark without a batch is void") {
    withConf(changing: _*) {
      val idle = after(half.frame, 4).successor(two.frame)
      running(idle)(_.settle())
      assert(isMarked(idle, 4))
      val old = idle.successor(half.frame)
      failsInSink(old, 4)
      assert(!isMarked(old, 4))
      assert(isPending(old, two))
      continues(old, half, "reject")
    }
  }

  testLong("a batch that another run has planned since start() is not one of the changed query") {
    withConf(changing: _*) {
      val old = after(half.frame, 4)
      val changed = old.successor(two.frame)
      val added = new Planned
      val others = spark.streams.listListeners()
      try {
        // Before all others.
        others.foreach(spark.streams.removeListener)
        (added +: others).foreach(spark.streams.addListener)
        running(changed) { job =>
          val failed = intercept[StreamingQueryException](job.settle())
          assert(failed.getMessage.contains("STREAMJOIN_CHECKPOINT_PENDING"))
        }
      } finally spark.streams.removeListener(added)
      assert(!isMarked(changed, 4))
      withConf(Evolve -> "reject")(running(changed.successor(half.frame))(_.settle())): Unit
    }
  }

  test("a batch that another driver has planned is not one of the changed query") {
    withConf(changing: _*) {
      val old = after(half.frame, 4)
      running(old.successor(two.frame)) { changed =>
        changed.settle()
        assert(isMarked(changed, 4))
        planNext(changed.execution)
        intercept[StreamingQueryException](feed(changed, 4))
        eventually(timeout(Span(20, Seconds)))(assert(!isMarked(changed, 4)))
      }
      assert(isPending(old, two))
    }
  }

  /** Plans a batch without rows, as another driver could. */
  private def planNext(query: MicroBatchExecution): Unit = {
    val log = new OffsetSeqLog(spark, s"${query.resolvedCheckpointRoot}/offsets")
    val (batch, last) = log.getLatest().get
    assert(log.add(batch + 1, NextOffsets.after(last, watermarkMs = 0, timeMs = 0).get))
  }

  /** Does so when a run starts. */
  final private class Planned extends StreamingQueryListener {
    override def onQueryStarted(event: QueryStartedEvent): Unit =
      RunningQuery.of(spark, event.id).foreach(planNext)

    override def onQueryProgress(event: QueryProgressEvent): Unit = ()

    override def onQueryTerminated(event: QueryTerminatedEvent): Unit = ()
  }
}

private object ChangedBatchSuite {

  /** Fails in the thread of a query, if it is told to. */
  object Planning extends Rule[LogicalPlan] {
    val Message = "not planned"

    @volatile var fails: Boolean = false

    override def apply(plan: LogicalPlan): LogicalPlan =
      if (fails && Thread.currentThread.getName.startsWith("stream execution thread"))
        throw new IllegalStateException(Message)
      else plan
  }
}
