package org.apache.spark.sql.streamjoin.state

import java.util.UUID

import org.apache.spark.sql.execution.streaming.state.{StateStoreId, StateStoreProviderId}

import streamjoin.core.Side

/** The index passes from one task to the next; no two tasks ever have it at once. */
class IndexCacheSuite extends StateTest {
  import TestRows.simple

  private val rows = simple

  private def newId(): StateStoreProviderId =
    StateStoreProviderId(StateStoreId(folder.toString, 0, 0), UUID.randomUUID())

  test("a task that has published its index no longer touches it, whichever task takes it") {
    withProvider() { provider =>
      val id = newId()
      val first = on(provider.getStore(0, None), rows)
      first.append(Side.Left, rows(simple(1, 1, 1)))
      first.commit()
      val index = first.handOver()
      IndexCache.put(id, index)

      // Once it is published, the next task takes it, and has rows that wait to be inserted.
      val second = on(provider.getStore(1, None), rows, cached = IndexCache.take[JoinIndex](id))
      assert(second.reused)
      second.append(Side.Left, rows(simple(2, 1, 2)))
      val (segments, used) = (index.buffer(Side.Left).segments.size, index.memory.used)
      Seq[JoinState => Any](_.rows(Side.Left), _.lowest(Side.Left, 0), _.size, _.commit(), _.handOver())
        .foreach { look =>
          intercept[AssertionError](look(first))
          assert(index.buffer(Side.Left).segments.size == segments)
          assert(index.memory.used == used)
        }
      assert(second.rows(Side.Left) == 2)
      second.commit()
    }
  }

  test("the index of a stopped run is dropped when the next run begins, and takes no share of memory") {
    withProvider() { provider =>
      val executor = new ExecutorMemory
      val limit = ExecutorMemory.Limit(executor, 1000000)
      def begun(cached: Option[JoinIndex]) = new JoinState(
        provider.getStore(0, None),
        Seq(rows.layout, rows.layout),
        Seq(10L, 10L),
        Long.MaxValue,
        cached,
        executor = limit
      )
      val stopped = newId()
      val state = begun(None)
      state.append(Side.Left, rows(simple(1, 1, 1)))
      state.commit()
      IndexCache.put(stopped, state.handOver())
      assert(executor.indexes == 1)
      assert(executor.used > 0)

      val next = StateStoreProviderId(stopped.storeId, UUID.randomUUID())
      assert(IndexCache.take[JoinIndex](next).isEmpty)
      assert(executor.indexes == 0)
      assert(executor.used == 0)
      assert(IndexCache.take[JoinIndex](stopped).isEmpty)

      // An index put in the place of another run's index replaces it.
      val (one, other) = (begun(None), begun(None))
      Seq(one, other).foreach(_.append(Side.Left, rows(simple(1, 1, 1))))
      val (held, later) = (one.handOver(), other.handOver())
      IndexCache.put(stopped, held)
      IndexCache.put(next, later)
      assert(executor.indexes == 1)
      assert(executor.used == later.memory.used)
      assert(IndexCache.take[JoinIndex](next).exists(_ eq later))
      later.close()
    }
  }
}
