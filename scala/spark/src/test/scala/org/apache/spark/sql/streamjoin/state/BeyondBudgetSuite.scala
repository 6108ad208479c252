package org.apache.spark.sql.streamjoin.state

import org.apache.spark.sql.execution.streaming.state.StateStore

import streamjoin.core.Side

/** Rows that do not fit into memory are read back for their own keys only. */
class BeyondBudgetSuite extends StateTest {
  import TestRows.simple

  private val rows = simple
  private val Width = 1000000L
  private val Count = 2000L

  /** Room for a fifth of the rows, and for what is known of the keys of the others. */
  private val Budget = 40000L
  private val anywhere = Reach(Seq(0 -> Width), Seq(0 -> Width))

  private def fill(store: StateStore): JoinState = {
    val state = on(store, rows, width = 100L, Budget)
    (0L until Count).foreach(i => state.append(Side.Left, rows(simple(i, 2 * i, i, wide = 40))))
    state.commit()
    assert(state.size.unloaded > state.size.segments / 2)
    state
  }

  /** Removes all segments: what is gone cannot be read. */
  private def removeSegments(store: StateStore): Unit =
    store.iterator().map(_.key.copy()).toSeq.filter(_.getInt(0) == 1).foreach(store.remove(_))

  private def probed(state: JoinState, keys: Seq[Long]): Seq[(Long, Long)] = {
    keys.foreach(key => state.append(Side.Right, rows(simple(Count + key, key, Count / 2))))
    pairs(state, Side.Right, anywhere)
  }

  for (opened <- Seq("the index is at hand", "the version was opened anew"))
    test(s"rows whose keys are not in the state read nothing back, $opened") {
      withProvider() { provider =>
        val first = fill(provider.getStore(0, None))
        val cached = Option.when(opened == "the index is at hand")(first.handOver())
        val store = provider.getStore(1, None)
        val state = on(store, rows, width = 100L, Budget, cached)
        assert(state.size.unloaded > state.size.segments / 2)
        removeSegments(store)
        assert(probed(state, (0L until 200L).map(2 * _ + 1)).isEmpty)
        store.abort()
      }
    }

  test("a row whose key is in the state reads only the segment that has it") {
    withProvider() { provider =>
      val cached = fill(provider.getStore(0, None)).handOver()
      val unloaded = cached.buffer(Side.Left).segments.filterNot(_.isLoaded).toSeq
      val number = unloaded(unloaded.size / 2).lowest(0)
      val store = provider.getStore(1, None)
      val state = on(store, rows, width = 100L, Budget, Some(cached))
      val wanted = unloaded(unloaded.size / 2)
      store
        .iterator()
        .map(_.key.copy())
        .toSeq
        .filter(key => key.getInt(0) == 1 && key.getLong(2) != wanted.bucket)
        .foreach(store.remove(_))
      assert(probed(state, Seq(2 * number, 2 * number + 1)) == Seq(Count + 2 * number -> number))
      store.abort()
    }
  }

  test("without room for the key hashes, every segment in reach is read, and all matches are found") {
    withProvider() { provider =>
      val state = on(provider.getStore(0, None), rows, width = 100L, budget = 1)
      (0L until Count).foreach(i => state.append(Side.Left, rows(simple(i, 2 * i, i))))
      state.commit()
      assert(state.committedIndex.memory.keys == 0)
      val next = on(provider.getStore(1, None), rows, width = 100L, budget = 1, Some(state.handOver()))
      assert(probed(next, 0L until 100L) == (0L until 100L by 2L).map(key => Count + key -> key / 2))
      next.commit()
    }
  }

  test("key hashes are given back with their segments") {
    withProvider() { provider =>
      val cached = fill(provider.getStore(0, None)).handOver()
      val before = cached.memory.keys
      val next = on(provider.getStore(1, None), rows, width = 100L, Budget, Some(cached))
      evict(next, Side.Left, unmatched = false, Count / 2)
      next.commit()
      val half = next.committedIndex.memory.keys
      assert(before > 0 && half > 0 && half < before)
      val last = on(provider.getStore(2, None), rows, width = 100L, Budget, Some(next.handOver()))
      evict(last, Side.Left, unmatched = false, Count)
      last.commit()
      assert(last.committedIndex.memory.keys == 0 && last.size == JoinState.Size(0, 0, 0, 0, 0))
    }
  }
}
