package org.apache.spark.sql.streamjoin.evolve

import java.nio.file.{Files, Path}

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.functions.{count, expr, window}
import org.apache.spark.sql.streaming.StreamingQueryException
import org.apache.spark.sql.streamjoin.JoinTest.{Job, Streams, at, d, o}
import org.apache.spark.sql.streamjoin.operator.StatefulNodeExec
import org.apache.spark.sql.streamjoin.{Frames, SparkTest}
import org.apache.spark.sql.{AnalysisException, DataFrame}

/** Joins that are added on top of a running query, and removed from its top. */
class AddedJoinsSuite extends AnyFunSuite with AddedTest {
  private val noData = "spark.sql.streaming.noDataMicroBatches.enabled" -> "false"

  /** What the join would have kept is gone. */
  private val removed = Seq("10 10", "11 12", "4 5", "6 6", "7 7", "8 9")

  // What becomes of the rows.

  test("a join is added: it has the rows that come from then on") {
    val old = fed(one, before)
    assert(output(old) == Seq("1 2", "3 3"))
    assert(startError(old, two()).getMessageParameters.get("what") == "join 2")
    withConf(Evolve -> "exact")(assert(startError(old, two()).getMessage.contains(s"$Evolve=allow")))
    val (first, rest) = after.splitAt(1)
    val changed = allow(old.successor(two()).start())
    try {
      assert(changed.feed(first.head: _*) == Seq("4 5 7"))
      // The last order before the change is of 10:30, and may have a row an hour later.
      assert(completeFrom(changed) == at("11:30:00.001").getTime)
      changed.restart()
      rest.foreach(rows => changed.feed(rows: _*))
      assert(output(changed) == added)
      assert(completeFrom(changed) == -1)
    } finally changed.stop(): Unit
  }

  /** Of the upper join. */
  private def completeFrom(job: Job): Long = {
    val upper = job.progress.stateOperators.find(_.customMetrics.get("join") == 2L).get
    Option(upper.customMetrics.get("completeFromMs")).fold(-1L)(_.longValue)
  }

  test("a join is removed: the rows that it would have received are emitted") {
    val old = fed(two(), before)
    assert(output(old) == Seq("1 2 3"))
    assert(startError(old, one).getMessage.contains(s"$Evolve=exact"))
    val changed = old.successor(one)
    withConf(Evolve -> "exact")(running(changed)(_.feed(after.head: _*)))
    assert(continued(changed, after.tail) == removed)
  }

  private val states = Seq(
    "other partitions" -> Seq("spark.streamjoin.partitions" -> "3"),
    "RocksDB with checkpoint ids" -> Seq(
      "spark.sql.streaming.stateStore.providerClass" ->
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
      "spark.sql.streaming.stateStore.checkpointFormatVersion" -> "2"
    )
  )

  for ((name, settings) <- states)
    testLong(s"a join is added, removed, and added again, with $name") {
      withConf(settings :+ (Evolve -> "allow"): _*) {
        val old = fed(one, before)
        withConf("spark.streamjoin.partitions" -> "4") {
          val upper = old.successor(two())
          assert(continued(upper, after.take(2)) == Seq("4 5 7", "8 9 10"))
          val lower = upper.successor(one)
          assert(continued(lower, Seq(Seq(o("h", "11:05", 13), d("h", "11:06", 14)))) == Seq("13 14"))
          val again = lower.successor(two("inner"))
          val more = Seq(Seq(o("i", "11:40", 15), d("i", "11:40", 16), e("i", "11:40", 17)))
          assert(continued(again, more) == Seq("15 16 17"))
          assert(evolution(again, one).map(_.take(2)) == Seq(Seq("3", "join 3")))
          assert(again.restart().streaming.isActive)
          again.stop(): Unit
        }
      }
    }

  testLong("rows are put in order from then on, and no longer") {
    val plain: Query = lower(_).selectExpr("t", "a")
    val sorted: Query = streams => Frames.sorted(lower(streams).selectExpr("t", "a"), "t")
    val old = fed(plain, Seq(Seq(o("a", "10:00", 1), d("a", "10:00", 2))))
    val rows = Seq(
      Seq(o("b", "10:40", 3), o("c", "10:20", 4), d("b", "10:50", 5), d("c", "10:50", 6)),
      Seq(o("end", "23:00", 999), d("end", "23:00", 999))
    )
    val changed = old.successor(sorted)
    withConf(Evolve -> "exact")(running(changed)(job => rows.foreach(rows => job.feed(rows: _*))))
    assert(changed.seen.flatMap(_.rows) == Seq("10:20 4", "10:40 3"))
    val last = changed.successor(plain)
    withConf(Evolve -> "exact")(
      assert(continued(last, Seq(Seq(o("z", "23:30", 7), d("z", "23:30", 8)))) == Seq("23:30 7"))
    )
  }

  test("rows are put in order above a join with another number of partitions than a new one has") {
    val old = withConf("spark.streamjoin.partitions" -> "3") {
      fed(lower(_).selectExpr("t", "a"), Seq(Seq(o("a", "10:00", 1), d("a", "10:00", 2))))
    }
    val sorted: Query = streams => Frames.sorted(lower(streams).selectExpr("t", "a"), "t")
    withConf(Evolve -> "exact")(running(old.successor(sorted)) { job =>
      job.feed(o("b", "10:40", 3), d("b", "10:50", 5))
      assert(job.feed(o("end", "23:00", 999), d("end", "23:00", 999)) == Seq("10:40 3"))
      assert(job.plan.collect { case exec: StatefulNodeExec => exec.numPartitions } == Seq(3, 3))
    })
  }

  // Attempts.

  private def hasMetadata(job: Job): Boolean =
    Files.exists(Path.of(job.checkpoint, "state", "1001", "_metadata"))

  private val changes = Seq(("added", one, two()), ("removed", two(), one))

  private def failing(job: Job): Job = {
    job.sink = _ => throw new IllegalStateException("no room")
    running(job)(job => intercept[StreamingQueryException](job.feed(after.head: _*)))
    job
  }

  for ((name, was, is) <- SparkTest.part(changes, every = 2)) {
    test(s"a join is $name: after an attempt that failed, the old query continues, or the changed one") {
      withConf(noData, Evolve -> "allow") {
        def expected(query: Query) = {
          val all = fed(was, before)
          continued(all.successor(query))
        }
        for (next <- SparkTest.part(Seq(was, is), every = 2)) {
          val failed = failing(fed(was, before).successor(is))
          // No permission is needed to go back.
          val last =
            withConf(Evolve -> (if (next == was) "reject" else "allow"))(failed.successor(next).start())
          try {
            last.settle()
            after.tail.foreach(rows => last.feed(rows: _*))
            assert(output(last) == expected(next))
            assert(hasMetadata(last) == (name == "removed" || next == is))
          } finally last.stop()
          // It may still be changed.
          if (next == was) assert(evolution(last, is).nonEmpty)
        }
      }
    }

    test(s"a join is $name: the first batch runs again, with the same rows") {
      withConf(noData, Evolve -> "allow") {
        val expected = continued(fed(was, before).successor(is))
        assert(expected.size > 1)
        running(fed(was, before).successor(is)) { job =>
          job.feed(after.head: _*)
          job.redoLast()
          assert(job.seen.map(_.rows.sorted).distinct.size == 1)
          after.tail.foreach(rows => job.feed(rows: _*))
          assert(output(job) == expected)
        }
      }
    }

    testLong(s"a join is $name: yet another query is rejected while the batch is pending") {
      withConf(noData, Evolve -> "allow") {
        val failed = failing(fed(was, before).successor(is))
        def isPending(query: Query) =
          startError(failed, query).getCondition == "STREAMJOIN_CHECKPOINT_PENDING"
        assert(isPending(two("inner")))
        running(failed.successor(is))(_.settle()): Unit
      }
    }
  }

  testLong("the state of a removed join is deleted once no batch needs it") {
    withConf("spark.sql.streaming.minBatchesToRetain" -> "2", noData) {
      val state = (job: Job) => Path.of(job.checkpoint, "state", "1001")
      val old = fed(two(), before)
      val changed = old.successor(one)
      withConf(Evolve -> "exact")(running(changed)(_.feed(after.head: _*)))
      assert(Files.exists(state(changed)))
      (1 to 3).foreach { batch =>
        changed.start()
        try changed.feed(o("x", s"11:0$batch", 50))
        finally changed.stop()
      }
      assert(!Files.exists(state(changed)))
      assert(continued(changed, after.tail).nonEmpty)
      allow(assert(continued(changed.successor(two()), Seq(Seq(o("y", "23:10", 60)))) == Nil))
    }
  }

  // Above and below.

  private def counted(joined: DataFrame): DataFrame =
    joined
      .groupBy(window(expr("t"), "30 minutes").as("w"))
      .agg(count("*").as("n"))
      .selectExpr("w.start AS a", "n AS b")

  private def alongside(query: Streams => DataFrame): Query = streams =>
    query(streams).union(streams.marked("e").selectExpr("t AS a", "CAST(v AS BIGINT) AS b"))

  test("an aggregation above a join that is removed opens no window again") {
    val later = "f.id = e.id AND e.t BETWEEN f.t + INTERVAL 1 HOUR AND f.t + INTERVAL 2 HOURS"
    val old = fed(
      streams => counted(lower(streams).join(streams.marked("e"), expr(later)).selectExpr("e.t AS t")),
      Seq(
        Seq(o("a", "10:00", 1), d("a", "10:00", 2), e("a", "11:10", 3)),
        // The output watermark of the upper join is 12:00 now, and that of the lower one 11:00.
        Seq(o("b", "12:00", 4), d("b", "12:00", 5), e("x", "13:00", 6), o("q", "11:15", 7))
      )
    )
    assert(old.seen.flatMap(_.rows) == Seq("11:00 1"))
    val changed = old.successor(alongside(streams => counted(lower(streams))))
    withConf(Evolve -> "exact")(running(changed) { job =>
      // The pair of 11:15 belongs to a window that has been emitted.
      job.feed(d("q", "12:05", 8), o("c", "12:10", 9), d("c", "12:20", 10))
      job.feed(after.last: _*)
      assert(output(job).filterNot(_.startsWith("23:")) == Seq("12:00 1"))
      assert(job.dropped == 1)
    })
  }

  testLong("a join below an aggregation cannot be added") {
    val old = fed(alongside(streams => counted(lower(streams))), before)
    isRejected(
      old,
      streams => counted(lower(streams).join(streams.marked("e"), expr(Above)).selectExpr("f.t AS t")),
      "add it above"
    )
  }

  test("a join below another operator can neither be added nor removed") {
    val plain: Query = streams =>
      Frames.sorted(
        streams.marked("o").selectExpr("t", "v AS a").union(streams.marked("d").selectExpr("t", "v AS a")),
        "t"
      )
    val joined: Query = streams => Frames.sorted(lower(streams).selectExpr("t", "a"), "t")
    isRejected(fed(plain, before.map(_.filterNot(_._1 == "e"))), joined, "add it above")
    isRejected(fed(joined, before.map(_.filterNot(_._1 == "e"))), plain, "remove them as well")
  }

  test("a source cannot be added without a name") {
    val old = fed(picked("inner"), before.map(_.filterNot(_._1 == "e")))
    isRejected(old, two(), "readStream.name")
    assert(evolution(old, two()).map(_(1)) == Seq("number_of_sources", "join 2"))
  }

  testLong("the dry run shows the join") {
    val old = fed(one, before)
    val values = Seq(
      "2",
      "join 2",
      "none",
      "left outer interval join",
      "empty",
      "complete from 2024-06-01T11:30:00.001Z"
    )
    assert(evolution(old, two()).map(_.init) == Seq(values))
    val other = fed(two("inner"), before)
    assert(
      evolution(other, one).map(_.init) == Seq(
        Seq("2", "join 2", "inner interval join", "none", "removed", "exact")
      )
    )
    assert(evolution(other, two("inner")).isEmpty)
  }

  testLong("the checkpoint of an older version has to record the places first") {
    val old = fed(one, before)
    val record = Path.of(old.checkpoint, "stream-joins", "0")
    val text = Files.readString(record)
    val without = text.replaceAll(""","place":"([^"\\]|\\.)*"""", "")
    assert(without != text)
    SparkTest.overwrite(record, without)
    isRejected(old, two(), "has committed a batch")
    running(old)(_.feed(o("x", "10:31", 40)))
    assert(Files.readString(record) == text)
    allow(assert(continued(old.successor(two())) == added))
  }

  test("the state of an added join is read from the batch on with which it was added") {
    val old = fed(one, before)
    val changed = allow(old.successor(two()).start())
    try {
      changed.feed(after.head: _*)
      def state(options: (String, String)*) = spark.read
        .format("streamjoin")
        .options(Map("checkpoint" -> changed.checkpoint, "operator" -> "2", "side" -> "left") ++ options)
        .load()
      assert(state().count() == 1)
      assert(
        intercept[AnalysisException](state("batch" -> "0")).getMessage.contains("1 (inner interval join)")
      )
    } finally changed.stop(): Unit
  }
}
