package org.apache.spark.sql.streamjoin.state

import java.util.UUID

import org.apache.spark.sql.execution.streaming.state.{StateStoreId, StateStoreProvider, StateStoreProviderId}
import org.apache.spark.sql.streamjoin.base.StreamJoinRuntimeException

import streamjoin.core.Side

/** The memory of all indexes of an executor: every index in use counts, and none that is gone. */
class ExecutorMemorySuite extends StateTest {
  import TestRows.simple

  private val rows = simple
  private val layouts = Seq(rows.layout, rows.layout)

  private def open(
      provider: StateStoreProvider,
      version: Long,
      executor: ExecutorMemory,
      limit: Long = Long.MaxValue,
      cached: Option[JoinIndex] = None,
      width: Long = 10L
  ): JoinState = new JoinState(
    provider.getStore(version, None),
    layouts,
    Seq(width, width),
    Long.MaxValue,
    cached,
    executor = ExecutorMemory.Limit(executor, limit)
  )

  private def fill(state: JoinState, from: Long, count: Int, wide: Int = 1000): Unit =
    (from until from + count).foreach(i => state.append(Side.Left, rows(simple(i, i % 7, i, wide))))

  private def committed(state: JoinState): JoinIndex = {
    state.commit()
    state.handOver()
  }

  private def newId(): StateStoreProviderId =
    StateStoreProviderId(StateStoreId(folder.toString, 0, 0), UUID.randomUUID())

  test("an index counts from its creation until it is dropped, whatever happens to its task") {
    val executor = new ExecutorMemory
    def holds(indexes: JoinIndex*): Unit = {
      assert(executor.indexes == indexes.size)
      assert(executor.used == indexes.map(_.used).sum)
    }
    withProvider() { provider =>
      val first = open(provider, 0, executor)
      fill(first, 0, 300)
      val index = committed(first)
      assert(index.used > 300 * 1000)
      holds(index)
      // The task that handed it over may end at any time.
      first.close()
      holds(index)

      val failed = open(provider, 1, executor, cached = Some(index))
      fill(failed, 300, 300)
      assert(executor.used > 600 * 1000)
      failed.abort()
      holds()
      failed.close()
      holds()

      val again = open(provider, 1, executor)
      fill(again, 300, 10)
      val next = committed(again)
      holds(next)

      // The batch runs once more: the cached index is of no use.
      val other = open(provider, 1, executor, cached = Some(next))
      assert(!other.reused)
      holds(other.committedIndex)
      // What a cancelled task still does no longer counts.
      other.close()
      fill(other, 300, 300)
      holds()
      other.abort()
    }
  }

  test("an index that the cache drops does not count") {
    val executor = new ExecutorMemory
    withProvider() { provider =>
      val id = newId()
      def put(version: Long): Unit = {
        val state = open(provider, version, executor)
        fill(state, version, 50)
        IndexCache.put(id, committed(state))
      }
      put(0)
      put(0)
      assert(executor.indexes == 1, "the first index was replaced")
      assert(executor.used > 50 * 1000)
      assert(executor.used < 150 * 1000)
      // Spark does not know this store.
      IndexCache.sweep()
      assert(executor.indexes == 0)
      assert(executor.used == 0)
      assert(IndexCache.take[JoinIndex](id).isEmpty)
    }
  }

  test("an index that could not be read does not count") {
    val executor = new ExecutorMemory
    withProvider() { provider =>
      val index = {
        val state = open(provider, 0, executor)
        fill(state, 0, 300)
        committed(state)
      }
      val store = provider.getStore(1, None)
      val keys = store.iterator().map(_.key.copy()).toSeq
      store.remove(keys.filter(_.getInt(0) == 1).last)
      store.commit()
      index.token = null
      intercept[StreamJoinRuntimeException](open(provider, 2, executor, cached = Some(index)))
      assert(executor.indexes == 0)
      assert(executor.used == 0)
    }
  }

  test("an index that no batch uses any more is dropped when others need its memory") {
    val executor = new ExecutorMemory
    withProvider() { provider =>
      val id = newId()
      val state = open(provider, 0, executor, limit = 100 * 1000)
      fill(state, 0, 60)
      IndexCache.put(id, committed(state))
      // The cache is told that Spark knows the store.
      IndexCache.sweep(_ => true, idleNanos = 0)
      assert(executor.indexes == 1, "there is room")
      val other = new IndexMemory(Long.MaxValue, ExecutorMemory.Limit(executor, 100 * 1000))
      other.add(90 * 1000)
      IndexCache.sweep(_ => true, idleNanos = Long.MaxValue)
      assert(executor.indexes == 2, "it was used a moment ago")
      IndexCache.sweep(_ => true, idleNanos = 0)
      assert(executor.indexes == 1)
      assert(executor.used == 90 * 1000)
      assert(IndexCache.take[JoinIndex](id).isEmpty)
    }
  }

  test("an index is over its limit if all together are and it has more than its share") {
    val executor = new ExecutorMemory
    def memory(limit: Long): IndexMemory = new IndexMemory(100, ExecutorMemory.Limit(executor, limit))
    val (large, small, third) = (memory(150), memory(150), memory(150))
    large.add(90)
    small.add(40)
    assert(!large.exceeded)
    assert(!small.exceeded)
    assert(!third.exceeded)
    third.add(30)
    assert(executor.used == 160)
    assert(large.exceeded, "50 is the share of each")
    assert(!small.exceeded, "50 is the share of each")
    assert(!third.exceeded, "50 is the share of each")
    large.add(-10)
    assert(!large.exceeded, "150 are allowed")
    large.add(21)
    assert(large.exceeded, "more than its own budget")
    large.add(-61)
    small.add(20)
    third.add(60)
    third.close()
    assert(!small.exceeded)
    assert(executor.used == 100)
    assert(executor.indexes == 2)
  }

  test("indexes keep to the executor's limit, down to their shares") {
    val executor = new ExecutorMemory
    val Limit = 800L * 1000
    def batch(version: Long, cached: Seq[Option[JoinIndex]]): Seq[JoinState] = (0 until 4).map { partition =>
      withProvider(partition = partition) { provider =>
        val state = open(provider, version, executor, Limit, cached(partition))
        assert(state.reused == (version > 0))
        fill(state, 1000 * version, 200)
        state.commit()
        state
      }
    }
    val first = batch(0, Seq.fill(4)(None))
    // The first tasks keep what they have until their next batch; then all tasks have the same.
    assert(first.head.size.unloaded == 0)
    assert(first.last.size.unloaded > 0)
    val second = batch(1, first.map(state => Some(state.handOver())))
    assert(executor.used <= Limit)
    assert(executor.used > Limit / 2)
    second.foreach(state => assert(state.size.index <= Limit / 4 + 2 * 16000))
    second.foreach(_.close())
    assert(executor.used == 0)
  }

  test("the rows with the least time left are unloaded first, on either side") {
    withProvider() { provider =>
      val first = open(provider, 0, new ExecutorMemory)
      // Left rows are evicted below 1000, right rows below 0: of rows with the same time, the right
      // ones have more time left.
      (1000L until 1100L).foreach(i => first.append(Side.Left, rows(simple(i, i, i, 1000))))
      (0L until 100L).foreach(i => first.append(Side.Right, rows(simple(i, i, i, 1000))))
      evict(first, Side.Left, unmatched = false, 1000L)
      evict(first, Side.Right, unmatched = false, 0L)
      first.commit()
      val half = first.size.stored / 2
      first.close()
      def remaining(state: JoinState, below: Map[streamjoin.core.Side, Long]): Seq[(Long, Boolean)] =
        Seq(Side.Left, Side.Right).flatMap { side =>
          state.committedIndex.buffer(side).segments.map(s => (s.highest(0) - below(side), s.isLoaded))
        }
      val opened = new JoinState(provider.getStore(1, None), layouts, Seq(1L, 1L), half, None)
      val now = remaining(opened, Map(Side.Left -> 1000L, Side.Right -> 0L))
      val (loaded, unloaded) = now.partition(_._2)
      assert(loaded.size >= 8)
      assert(unloaded.size >= 8)
      assert(unloaded.map(_._1).max <= loaded.map(_._1).min)
      opened.abort()
    }
  }

  test("rows that another task keeps do not use the budget of a task's own rows, and have their own cap") {
    withProvider(partition = 0) { keeper =>
      def kept(count: Int): JoinState = {
        val state = on(keeper.getStore(0, None), rows)
        (0 until count).foreach(i => state.append(Side.Right, rows(simple(i, 1, i, 1000))))
        state
      }
      kept(300).commit()
      withProvider(partition = 1) { own =>
        def task(version: Long, cap: Long): JoinState = new JoinState(
          own.getStore(version, None),
          layouts,
          Seq(10L, 10L),
          250000,
          None,
          Some(JoinState.ReplicatedSide(Side.Right, cap, read => reading(keeper, version)(read)))
        )
        def work(state: JoinState): Int = {
          fill(state, 0, 50)
          (0 until 300).foreach(i => state.append(Side.Right, rows(simple(i, 1, i, 1000))))
          val found = pairs(state, Side.Right, anyTime).size
          state.commit()
          found
        }
        val small = task(0, 200000)
        val error = intercept[StreamJoinRuntimeException](work(small))
        assert(error.getCondition == "STREAMJOIN_BROADCAST_TOO_LARGE")
        assert(error.getMessage.contains("Task 1 of the join holds "))
        assert(error.getMessage.contains("200000"))
        assert(error.getMessage.contains("bytes of the right input"))
        small.abort()

        // Left rows take 60 kB, and as much again while they wait: they stay in memory next to 300
        // kB of the others.
        val state = task(0, 2000000)
        assert(work(state) == 7 * 300)
        assert(state.size.unloaded == 0)
        assert(state.size.segments > 5)
        assert(state.committedIndex.memory.used <= 250000)
        assert(state.size.index > 350000)
        state.close()

        val reopened = intercept[StreamJoinRuntimeException](task(1, 200000))
        assert(reopened.getCondition == "STREAMJOIN_BROADCAST_TOO_LARGE")
      }
    }
  }

  test("the limit of an index shared by many queries can change") {
    val executor = new ExecutorMemory
    val memory = new IndexMemory(Long.MaxValue, ExecutorMemory.Limit(executor, 1000))
    memory.add(100)
    assert(!memory.exceeded)
    memory.limitTo(50)
    assert(memory.exceeded)
    assert(memory.allowance == 50)
    memory.limitTo(1000)
    assert(!memory.exceeded)
    memory.close()
    assert(executor.used == 0)
  }
}
