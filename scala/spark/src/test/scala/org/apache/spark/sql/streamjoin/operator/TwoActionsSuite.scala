package org.apache.spark.sql.streamjoin.operator

import java.lang.reflect.{InvocationTargetException, Method, Proxy}
import java.util.concurrent.atomic.AtomicInteger

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.execution.streaming.state.StateStore
import org.apache.spark.sql.streamjoin.JoinTest

/**
 * A `foreachBatch` with two actions on its frame runs the join twice, from the same version of the
 * state. The first run moves the index on to the next version, or stops half way; the second run
 * takes the index back. So the state is read only once, when the query starts.
 */
class TwoActionsSuite extends AnyFunSuite with JoinTest {
  import JoinTest._

  private def rowsOf(batch: DataFrame): Seq[String] = batch.collect().map(text).toSeq

  /**
   * The rows that were emitted after the first batch, how often the state was read since, and
   * how many batches ran.
   */
  private def outcome(sink: DataFrame => Seq[String]): (Seq[String], Int, Int) = withConf(
    "spark.sql.shuffle.partitions" -> "1",
    "spark.sql.streaming.stateStore.providerClass" -> classOf[ReadCountingProvider].getName
  ) {
    val join = job(picked("inner"))
    join.sink = sink
    running(join) { join =>
      join.feed(o("a", "10:00", 1), o("b", "10:00", 2))
      val (reads, batches) = (ReadCounting.reads.get, join.seen.size)
      val rows = join.feed(d("a", "10:10", 3)) ++ join.feed(d("b", "10:20", 4), o("c", "10:30", 5))
      (rows, ReadCounting.reads.get - reads, join.seen.size - batches)
    }
  }

  private val pairs = Seq("1 3", "2 4")

  private def readsNothing(sink: DataFrame => Seq[String]): Unit = {
    val (rows, reads, batches) = outcome(sink)
    assert(rows == pairs)
    assert(reads == 0)
    assert(batches > 1)
  }

  test("a batch with one action does not read the state again")(readsNothing(rowsOf))

  testLong("the same action three times does not read the state again") {
    readsNothing { batch =>
      val first = rowsOf(batch)
      assert(rowsOf(batch) == first)
      assert(rowsOf(batch) == first)
      first
    }
  }

  test("an action that takes one row, and one that takes all, do not read the state again") {
    readsNothing { batch =>
      val isEmpty = batch.isEmpty
      val first = batch.take(1).map(text).toSeq
      val all = rowsOf(batch)
      assert(isEmpty == all.isEmpty)
      assert(first == all.take(1))
      all
    }
  }

  test("actions on a persisted frame do not read the state again") {
    readsNothing { batch =>
      batch.persist()
      try {
        assert(batch.count() == rowsOf(batch).size)
        rowsOf(batch)
      } finally batch.unpersist(): Unit
    }
  }
}

/** Counts full reads of a store, which happen when an index is built from it. */
object ReadCounting {
  val reads = new AtomicInteger

  def counted(store: StateStore): StateStore = {
    def call(method: Method, arguments: Array[AnyRef]): AnyRef = {
      if (method.getName == "iterator") reads.incrementAndGet(): Unit
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
