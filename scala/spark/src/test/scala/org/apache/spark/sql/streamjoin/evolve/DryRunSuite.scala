package org.apache.spark.sql.streamjoin.evolve

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.functions.expr
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streamjoin.JoinTest.{Job, Streams}

/** `sj.evolution`: what a changed query means for its checkpoint, without writing anything. */
class DryRunSuite extends AnyFunSuite with EvolutionTest {

  private def evolution(of: Job, query: ChangedQuery): Seq[Seq[Any]] = {
    val before = listing(of)
    val frame = query.frame(newStreams())
    val rows = streamjoin.StreamJoin.evolution(frame, of.checkpoint).collect().map(_.toSeq).toSeq
    frame.createOrReplaceTempView("changed")
    val inSql = spark.sql(s"SELECT * FROM sj_evolution(TABLE(changed), '${of.checkpoint}')")
    assert(inSql.collect().map(_.toSeq).toSeq == rows)
    assert(listing(of) == before)
    rows
  }

  test("the dry run says the same as the error, for each change") {
    val old = after(hour.frame, 4)
    assert(evolution(old, hour).isEmpty)
    val changed = hour.copy("left_outer", to = 120, pair = ChangedQuery.Less)
    val rows = evolution(old, changed)
    assert(rows.map(_(1)) == Seq("bound", "condition", "join_type"))
    assert(rows.forall(row => row.head == 1 && row(4) == "unchanged"))
    assert(rows.head.slice(2, 4) == Seq("right.t <= left.t + 1 hour", "right.t <= left.t + 2 hours"))
    assert(rows.map(_(5).toString.takeWhile(_ != ' ')) == Seq("complete", "exact", "complete"))
    val parameters = startError(old, changed.frame).getMessageParameters
    assert(rows.head.drop(1) == Seq("what", "was", "is", "state", "results", "advice").map(parameters.get))
  }

  testLong("the dry run shows settings that rewrite the state") {
    val rocksDb = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    val store = SQLConf.STATE_STORE_PROVIDER_CLASS
    val old = after(hour.frame, 3)
    val now = 2 // as for Spark's own operators
    withConf("spark.streamjoin.partitions" -> s"${now + 1}", store.key -> rocksDb) {
      val rows = evolution(old, half)
      assert(rows.map(_(1)) == Seq("bound", "partitions", "state_store"))
      assert(rows(1).slice(2, 6) == Seq(s"$now", s"${now + 1}", "rewritten", "exact"))
      assert(rows(2).slice(2, 6) == Seq(store.defaultValueString, rocksDb, "rewritten", "exact"))
      running(old)(feed(_, 3))
      assert(evolution(old, hour).isEmpty)
    }
    // Without the settings, the state does not change.
    assert(evolution(old, hour).isEmpty)
    withConf("spark.streamjoin.partitions" -> s"$now", store.key -> store.defaultValueString) {
      assert(evolution(old, hour).map(_(3)) == Seq(s"$now", store.defaultValueString))
    }
  }

  testLong("the dry run of a join without an equality, which one task runs") {
    val one = (streams: Streams) =>
      streams
        .marked("o")
        .join(streams.marked("d"), expr("d.t BETWEEN o.t AND o.t + INTERVAL 1 HOUR"), "full_outer")
        .selectExpr("o.v AS a", "d.v AS b")
    val old = after(one, 3)
    withConf("spark.streamjoin.partitions" -> "7") {
      assert(streamjoin.StreamJoin.evolution(one(newStreams()), old.checkpoint).isEmpty)
    }
  }

  test("the dry run of a query with a pending batch, with another join, and without a checkpoint") {
    val old = after(hour.frame, 4)
    old.uncommit()
    assert(evolution(old, half).map(_(1)) == Seq("pending_batch", "bound"))
    val two = streamjoin.StreamJoin.evolution(chained(hour)(newStreams()), old.checkpoint).collect()
    assert(two.head.toSeq.take(4) == Seq(null, "number_of_sources", "2", "3"))
    for ((folder, cause) <- Seq(newFolder() -> "NO_BATCH", s"${old.checkpoint}/state" -> "NO_BATCH"))
      assert(
        intercept[AnalysisException](
          streamjoin.StreamJoin.evolution(half.frame(newStreams()), folder)
        ).getCondition ==
          s"STREAMJOIN_NO_STATE.$cause"
      )
    val plain = job(_.raw("o").selectExpr("v AS a", "v AS b"))
    running(plain)(_.feed(begin: _*))
    assert(
      intercept[AnalysisException](
        streamjoin.StreamJoin.evolution(half.frame(newStreams()), plain.checkpoint)
      ).getCondition == "STREAMJOIN_NO_STATE.NO_OPERATOR"
    )
  }
}
