package org.apache.spark.sql.streamjoin

import java.lang.reflect.{InvocationTargetException, Method, Proxy}
import java.util.concurrent.atomic.AtomicInteger

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.execution.streaming.state.{HDFSBackedStateStoreProvider, StateStore}

/**
 * A `foreachBatch` that uses its frame twice runs the join twice, from the same version of the
 * state. The first run has taken the index on to the next version, or has been left off; the second
 * takes it back. So the state is read once, when the query starts.
 */
class TwoActionsSuite extends AnyFunSuite with JoinTest {
  import JoinTest._

  private def rowsOf(batch: DataFrame): Seq[String] = batch.collect().map(text).toSeq

  /** What came out in three batches, and how often the state was read once there was some. */
  private def outcome(sink: DataFrame => Seq[String]): (Seq[String], Int, Int) = withConf(
    "spark.sql.shuffle.partitions" -> "1",
    "spark.sql.streaming.stateStore.providerClass" -> classOf[ReadCountingProvider].getName
  ) {
    val join = job(streams => hourly()(streams).selectExpr("o.v AS a", "d.v AS b"))
    join.sink = sink
    running(join) { join =>
      join.feed(o("a", "10:00", 1), o("b", "10:00", 2))
      val (reads, batches) = (ReadCountingProvider.reads.get, join.seen.size)
      val rows = join.feed(d("a", "10:10", 3)) ++ join.feed(d("b", "10:20", 4), o("c", "10:30", 5))
      (rows, ReadCountingProvider.reads.get - reads, join.seen.size - batches)
    }
  }

  private val pairs = Seq("1 3", "2 4")

  private def readsNothing(sink: DataFrame => Seq[String]): Unit = {
    val (rows, reads, batches) = outcome(sink)
    assert(rows == pairs)
    assert(reads == 0)
    assert(batches > 1)
  }

  test("one action")(readsNothing(rowsOf))

  test("the same action three times") {
    readsNothing { batch =>
      val first = rowsOf(batch)
      assert(rowsOf(batch) == first)
      assert(rowsOf(batch) == first)
      first
    }
  }

  test("an action that takes a row only, and one that takes all") {
    readsNothing { batch =>
      val isEmpty = batch.isEmpty
      val first = batch.take(1).map(text).toSeq
      val all = rowsOf(batch)
      assert(isEmpty == all.isEmpty)
      assert(first == all.take(1))
      all
    }
  }

  test("a frame that is persisted") {
    readsNothing { batch =>
      batch.persist()
      try {
        assert(batch.count() == rowsOf(batch).size)
        rowsOf(batch)
      } finally batch.unpersist(): Unit
    }
  }
}

/** Counts how often all of a store is read, which is when an index is made from it. */
class ReadCountingProvider extends HDFSBackedStateStoreProvider {
  override def getStore(
      version: Long,
      uniqueId: Option[String],
      forceSnapshotOnCommit: Boolean,
      loadEmpty: Boolean
  ): StateStore = {
    val store = super.getStore(version, uniqueId, forceSnapshotOnCommit, loadEmpty)
    def call(method: Method, arguments: Array[AnyRef]): AnyRef = {
      if (method.getName == "iterator") ReadCountingProvider.reads.incrementAndGet(): Unit
      try method.invoke(store, Option(arguments).toSeq.flatten: _*)
      catch { case failed: InvocationTargetException => throw failed.getCause }
    }
    Proxy
      .newProxyInstance(
        classOf[StateStore].getClassLoader,
        Array(classOf[StateStore]),
        (_, method, arguments) => call(method, arguments)
      )
      .asInstanceOf[StateStore]
  }
}

object ReadCountingProvider {
  val reads = new AtomicInteger
}
