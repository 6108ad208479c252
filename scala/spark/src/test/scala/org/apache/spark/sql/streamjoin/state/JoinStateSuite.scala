package org.apache.spark.sql.streamjoin.state

import org.apache.spark.sql.execution.streaming.state.{ReadStateStore, StateStore, StateStoreProvider}
import org.apache.spark.sql.types._

import streamjoin.core.Side

/**
 * Random operations on the state of a task and on a plain map: matches, evictions and the rows
 * after a commit, an abort or a reload have to agree. Cases that chance seldom finds are written by
 * hand.
 */
class JoinStateSuite extends StateTest {
  import TestRows.{number, simple}

  private val views = JoinStateWork.Views(
    kinds,
    (index, store) => rowsOf(index, store).map(found => number(found.row) -> found.matched)
  )

  for (store <- Seq(defaultStore, rocksDb)) test(s"random operations agree with a plain map, $store") {
    seeds(default = if (store == rocksDb) 2 else 5) { seed =>
      withProvider(store, operator = seed)(new JoinStateWork(seed, _, views).run(batches = 12))
    }
  }

  // Cases written by hand.

  private val rows = simple

  private def numbers(state: JoinState, store: ReadStateStore): Seq[Long] =
    rowsOf(state.committedIndex, store).map(found => number(found.row)).sorted

  test("a row evicted by one time is not evicted again by the other") {
    withProvider() { provider =>
      val two = new TestRows(Seq(LongType), Seq(0, 1))
      val state = on(provider.getStore(0, None), two)
      state.append(Side.Left, two(simple(1, 1, 1)))
      assert(evict(state, Side.Left, unmatched = true, 5, Long.MinValue) == Seq(1))
      assert(evict(state, Side.Left, unmatched = true, 5, 5).isEmpty)
      assert(state.rows(Side.Left) == 0)
      state.commit()
    }
  }

  test("a row at the limit is not evicted") {
    withProvider() { provider =>
      val state = on(provider.getStore(0, None), rows)
      state.append(Side.Right, rows(simple(1, 1, 5)))
      assert(evict(state, Side.Right, unmatched = true, 5).isEmpty)
      assert(evict(state, Side.Right, unmatched = true, 6) == Seq(1))
      state.abort()
    }
  }

  test("a row that comes below the limit is kept until the whole batch has seen it") {
    withProvider() { provider =>
      val first = on(provider.getStore(0, None), rows, budget = 1)
      first.append(Side.Left, rows(simple(1, 1, 100)))
      evict(first, Side.Left, unmatched = true, 50)
      first.commit()
      val second = on(provider.getStore(1, None), rows, budget = 1)
      second.append(Side.Left, rows(simple(2, 1, 7)))
      second.append(Side.Left, rows(simple(3, 1, 77)))
      second.append(Side.Right, rows(simple(4, 1, 0)))
      assert(pairs(second, Side.Right, anyTime) == Seq(4L -> 1L, 4L -> 2L, 4L -> 3L))
      assert(evict(second, Side.Left, unmatched = true, 50) == Seq(2))
      second.abort()
    }
  }

  test("a reach beyond the range of longs stops at its ends") {
    withProvider() { provider =>
      val state = on(provider.getStore(0, None), rows, width = 1L << 40)
      val times = Seq(Long.MinValue, Long.MinValue + 1, -1L, 0L, 1L, Long.MaxValue - 1, Long.MaxValue)
      times.zipWithIndex.foreach { case (time, i) => state.append(Side.Left, rows(simple(i, 1, time))) }
      state.append(Side.Right, rows(simple(10, 1, Long.MaxValue)))
      state.append(Side.Right, rows(simple(11, 1, Long.MinValue)))
      def met(reach: ProbeTimeRange): Map[Long, Seq[Long]] =
        pairs(state, Side.Right, reach).groupMap(_._1)(_._2)
      // Matches left rows from right.time - constant on, or up to right.time + constant.
      assert(
        met(ProbeTimeRange(Seq(0 -> -1L), Nil)) == Map(10L -> Seq(6L), 11L -> Seq(1L, 2L, 3L, 4L, 5L, 6L))
      )
      assert(
        met(ProbeTimeRange(Seq(0 -> 1L), Nil)) == Map(
          10L -> Seq(5L, 6L),
          11L -> Seq(0L, 1L, 2L, 3L, 4L, 5L, 6L)
        )
      )
      assert(
        met(ProbeTimeRange(Nil, Seq(0 -> 1L))) == Map(
          10L -> Seq(0L, 1L, 2L, 3L, 4L, 5L, 6L),
          11L -> Seq(0L, 1L)
        )
      )
      assert(
        met(ProbeTimeRange(Nil, Seq(0 -> -1L))) == Map(10L -> Seq(0L, 1L, 2L, 3L, 4L, 5L), 11L -> Seq(0L))
      )
      assert(
        met(ProbeTimeRange(Seq(0 -> Long.MinValue), Nil)) == Map(10L -> Seq(6L), 11L -> Seq(3L, 4L, 5L, 6L))
      )
      assert(met(ProbeTimeRange(Nil, Seq(0 -> Long.MinValue))) == Map(10L -> Seq(0L, 1L, 2L), 11L -> Seq(0L)))
      assert(met(ProbeTimeRange(Seq(0 -> 0L), Seq(0 -> 0L))) == Map(10L -> Seq(6L), 11L -> Seq(0L)))
      assert(met(ProbeTimeRange(Seq(0 -> -2L), Seq(0 -> 1L))).get(11L).isEmpty)
      state.abort()
    }
  }

  for (store <- Seq(defaultStore, rocksDb)) test(s"a row larger than a segment has its own, $store") {
    withProvider(store) { provider =>
      val larger = Segment.MaxBytes + 1000
      val state = on(provider.getStore(0, None), rows, budget = 1 << 20)
      Seq(10, larger, 20, larger, 30).zipWithIndex.foreach { case (bytes, i) =>
        state.append(Side.Left, rows(simple(i, 1, 0, bytes)))
      }
      assert(evict(state, Side.Left, unmatched = true, -100).isEmpty)
      state.commit()
      assert(state.size.stored > 2L * larger)

      val next = provider.getStore(1, None)
      val again = on(next, rows, budget = 1 << 20)
      assert(again.size.segments >= 3)
      rowsOf(again.committedIndex, next).foreach { found =>
        val row = simple(number(found.row), 1, 0, found.row.getBinary(4).length)
        assert(found.row == rows(row))
      }
      again.append(Side.Right, rows(simple(9, 1, 0)))
      assert(pairs(again, Side.Right, anyTime) == (0L to 4L).map(9L -> _))
      assert(evict(again, Side.Left, unmatched = true, 1) == (0L to 4L))
      again.commit()
      assert(reading(provider, 2)(kinds) == Map(0 -> 1, 1 -> 1), "the header and the right row")
    }
  }

  test("waiting rows that would take too much memory are moved into segments early") {
    withProvider() { provider =>
      val state = on(provider.getStore(0, None), rows)
      val buffer = state.committedIndex.buffer(Side.Left)
      val wide = 30000
      val segments = (1L to 1200L).map { i =>
        state.append(Side.Left, rows(simple(i, i, 10 * i, wide)))
        buffer.segments.size
      }
      assert(segments.take(500).forall(_ == 0))
      assert(segments.last > 0)
      assert(buffer.segments.map(_.live).sum < 1200)
      assert(state.rows(Side.Left) == 1200)
      (1L to 1200L by 100).foreach(i => state.append(Side.Right, rows(simple(i, i, 10 * i))))
      assert(pairs(state, Side.Right, anyTime).size == 12)
      state.commit()
      val next = provider.getStore(1, None)
      assert(numbers(on(next, rows), next).distinct.size == 1200)
      next.abort()
    }
  }

  test("a full segment is followed by another") {
    withProvider() { provider =>
      val state = on(provider.getStore(0, None), rows)
      val wide = 300000
      (1L to 40L).foreach(i => state.append(Side.Left, rows(simple(i, i, 0, wide))))
      state.commit()
      val segments = state.committedIndex.buffer(Side.Left).segments.toSeq
      assert(segments.forall(_.size <= Segment.MaxBytes))
      assert(segments.size == 4, "13 rows fit into one")
      val next = provider.getStore(1, None)
      assert(numbers(on(next, rows), next) == (1L to 40L))
      next.abort()
    }
  }

  for (store <- Seq(defaultStore, rocksDb)) test(s"an index is used only if it equals the store, $store") {
    withProvider(store) { provider =>
      val first = on(provider.getStore(0, None), rows)
      first.append(Side.Left, rows(simple(1, 1, 1)))
      first.commit()
      val index = first.committedIndex

      val second = on(provider.getStore(1, None), rows, cached = Some(index))
      assert(second.reused)
      assert(second.committedIndex eq index)
      second.append(Side.Left, rows(simple(2, 1, 2)))
      second.abort()

      // The index has the rows of the aborted batch.
      val offered = provider.getStore(1, None)
      val third = on(offered, rows, cached = Some(index))
      assert(!third.reused)
      assert(numbers(third, offered) == Seq(1))
      third.append(Side.Left, rows(simple(3, 1, 3)))
      third.commit()

      // The batch runs again from the older version, as after a failure before the commit log.
      val older = provider.getStore(1, None)
      val again = on(older, rows)
      assert(!again.reused)
      assert(numbers(again, older) == Seq(1))
      again.append(Side.Left, rows(simple(4, 1, 4)))
      again.commit()

      // Two attempts at one batch have the same version, but not the same index.
      val newer = provider.getStore(2, None)
      val next = on(newer, rows, cached = Some(third.committedIndex))
      assert(!next.reused)
      assert(!next.rewound)
      assert(numbers(next, newer) == Seq(1, 4))
      next.abort()
    }
  }

  for (store <- Seq(defaultStore, rocksDb)) test(s"an index is taken back by the batch it is ahead, $store") {
    withProvider(store) { provider =>
      // By buckets of ten: the first is evicted, half of the second too, the third loses a row, and
      // the last gets one.
      val first = on(provider.getStore(0, None), rows)
      (1L to 30L).foreach(number => first.append(Side.Left, rows(simple(number, number, number))))
      first.commit()

      def batch(index: JoinIndex, isAhead: Boolean)(end: (JoinState, StateStore) => JoinIndex): JoinIndex = {
        val last = index.buffer(Side.Left).segments.find(_.lowest(0) == 30).get
        val opened = provider.getStore(1, None)
        val state = on(opened, rows, cached = Some(index))
        assert(state.reused == !isAhead)
        assert(state.rewound == isAhead)
        assert(numbers(state, opened) == (1L to 30L))
        assert(index.buffer(Side.Left).segments.exists(_ eq last), "unchanged segments are not read again")
        assert(evict(state, Side.Left, unmatched = true, 15) == (1L to 14L))
        state.append(Side.Left, rows(simple(98, 98, 31)))
        state.append(Side.Right, rows(simple(99, 25, 25)))
        val matches = state.matches(Side.Right, anyTime)
        assert(matches.next())
        matches.removeOther()
        end(state, opened)
      }
      val commit = (state: JoinState, _: StateStore) => {
        state.commit()
        state.handOver()
      }
      val leaveOff = (state: JoinState, opened: StateStore) => {
        opened.abort()
        state.leaveOff().get
      }
      val once = batch(first.handOver(), isAhead = false)(commit)
      val twice = batch(once, isAhead = true)(commit)
      val leftOff = batch(twice, isAhead = true)(leaveOff)
      val last = batch(leftOff, isAhead = true)(commit)
      val next = provider.getStore(2, None)
      val state = on(next, rows, cached = Some(last))
      assert(state.reused)
      assert(numbers(state, next) == ((15L to 30L).filter(_ != 25) :+ 98L :+ 99L))
      state.abort()
    }
  }

  for (store <- Seq(defaultStore, rocksDb))
    test(s"a committed version can be read while the owner goes on, $store") {
      def commit(provider: StateStoreProvider, version: Long): Unit = {
        val state = on(provider.getStore(version, None), rows)
        (0L to 9L).foreach(i => state.append(Side.Left, rows(simple(10 * version + i, i, 10 * version + i))))
        evict(state, Side.Left, unmatched = false, 10 * version - 15)
        state.commit()
      }
      withProvider(store) { owner =>
        (0L to 3L).foreach(commit(owner, _))
        val working = on(owner.getStore(4, None), rows)
        working.append(Side.Left, rows(simple(99, 1, 40)))
        withProvider(store) { reader =>
          val layouts = Seq(rows.layout, rows.layout)
          // Versions in any order, with a budget that keeps all rows in memory or none.
          for ((version, budget) <- Seq(2L -> 1L, 4L -> Long.MaxValue, 1L -> Long.MaxValue, 3L -> 1L)) {
            val opened = reader.getReadStore(version, None)
            val index = IndexReading.readOnly(opened, layouts, budget)
            if (version == 4) working.commit()
            val first = math.max(0L, 10 * (version - 1) - 15)
            assert(
              rowsOf(index, opened).map(found => number(found.row)).sorted == (first until 10 * version),
              s"version $version"
            )
            if (budget == 1) {
              val segments = Side.both.map(index.buffer(_).segments.size).sum
              assert(index.memory.used == segments * Segment.OwnBytes)
            }
            assert(index.buffer(Side.Left).bucketWidth == 10)
            assert(index.buffer(Side.Left).rows == 10 * version - first)
            opened.release()
          }
        }
        val next = owner.getStore(5, None)
        assert(numbers(on(next, rows, cached = Some(working.committedIndex)), next) == (15L until 40L) :+ 99L)
        next.abort()
      }
    }
}
