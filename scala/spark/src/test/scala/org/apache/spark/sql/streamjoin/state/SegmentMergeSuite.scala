package org.apache.spark.sql.streamjoin.state

import scala.util.Random

import org.apache.spark.sql.execution.streaming.state.{StateStoreProvider, UnsafeRowPair}

import streamjoin.core.Side

/**
 * What many small batches leave in the store: the number of segments follows the buckets, not the
 * batches, and expired buckets leave nothing.
 */
class SegmentMergeSuite extends StateTest {
  import TestRows.simple

  private val rows = simple
  private val Width = 100L

  /** For each bucket, how often its size can be halved, plus four. */
  private def most(state: JoinState): Long =
    Seq(Side.Left, Side.Right)
      .map(state.committedIndex.buffer)
      .flatMap(_.segments.toSeq.groupBy(_.bucket).values)
      .map { bucket =>
        val smallest = bucket.map(_.size).min
        4L + (math.log(bucket.map(_.size.toDouble).sum / smallest) / math.log(2)).toInt
      }
      .sum

  /** Each batch has a few rows for each bucket, at random. */
  private def batches(
      count: Int,
      buckets: Int,
      perBatch: Int,
      budget: Long = Long.MaxValue,
      keepIndex: Int => Boolean = _ => true
  )(check: (Int, JoinState, StateStoreProvider) => Unit): Unit = withProvider() { provider =>
    val random = new Random(7)
    var cached: Option[JoinIndex] = None
    (0 until count).foreach { batch =>
      val state =
        on(provider.getStore(batch.toLong, None), rows, Width, budget, cached.filter(_ => keepIndex(batch)))
      (0 until perBatch).foreach { i =>
        val row = simple(batch * perBatch + i, random.nextInt(50), random.nextLong(buckets * Width))
        state.append(if (i % 4 == 0) Side.Right else Side.Left, rows(row))
      }
      pairs(state, Side.Left, Reach(Seq(0 -> 1L), Seq(0 -> 1L)))
      pairs(state, Side.Right, Reach(Seq(0 -> 1L), Seq(0 -> 1L)))
      Seq(Side.Left, Side.Right).foreach(evict(state, _, unmatched = false, Long.MinValue))
      state.commit()
      cached = Some(state.committedIndex)
      check(batch, state, provider)
    }
  }

  private def checked(batch: Int, state: JoinState, provider: StateStoreProvider): Unit = {
    val segments = state.size.segments
    assert(segments <= most(state), s"segments after batch $batch")
    if (batch % 20 == 19)
      assert(reading(provider, batch + 1L)(kinds) == onlyHeader + (1 -> segments.toInt), "no flags")
  }

  test("the number of segments follows the buckets, not the batches") {
    var after = Map.empty[Int, Long]
    batches(count = 300, buckets = 3, perBatch = 16) { (batch, state, provider) =>
      checked(batch, state, provider)
      after += batch -> state.size.segments
    }
    assert(after.values.max <= 6 * 8, "six buckets of up to 1500 rows")
  }

  test("the number of segments follows the buckets if every batch runs in a new process") {
    batches(count = 120, buckets = 3, perBatch = 16, keepIndex = _ => false)(checked)
  }

  test("the number of segments follows the buckets if most rows are not in memory") {
    batches(count = 120, buckets = 3, perBatch = 16, budget = 20000)(checked)
  }

  test("the number of segments follows the buckets if no rows are in memory") {
    batches(count = 60, buckets = 3, perBatch = 16, budget = 1) { (batch, state, _) =>
      assert(state.size.segments <= 6 * 8, s"segments after batch $batch")
    }
  }

  test("a row is rewritten about as often as its bucket doubles") {
    withProvider() { provider =>
      var (written, seen) = (0L, Set.empty[(Long, Long)])
      var cached: Option[JoinIndex] = None
      val (count, each) = (256, 10)
      (0 until count).foreach { batch =>
        val state = on(provider.getStore(batch.toLong, None), rows, Width, cached = cached)
        (0 until each).foreach(i => state.append(Side.Left, rows(simple(batch * each + i, i, i))))
        state.commit()
        cached = Some(state.committedIndex)
        val now = state.committedIndex.buffer(Side.Left).segments.toSeq
        written += now.filterNot(segment => seen(segment.bucket -> segment.number)).map(_.rows.toLong).sum
        seen = now.map(segment => segment.bucket -> segment.number).toSet
      }
      assert(written <= count * each * 9L, "2560 rows double eight times")
    }
  }

  test("evicting everything leaves only the header") {
    Seq(1L, 5000L, Long.MaxValue).foreach { budget =>
      Seq(false, true).foreach { unmatched =>
        withProvider(operator = budget, partition = if (unmatched) 1 else 0) { provider =>
          val first = on(provider.getStore(0, None), rows, Width, budget)
          (0L until 500L).foreach { i =>
            first.append(if (i % 2 == 0) Side.Left else Side.Right, rows(simple(i, i / 2 % 20, i)))
          }
          val matches = first.matches(Side.Left, anyTime)
          while (matches.next()) matches.flagOwn()
          Seq(Side.Left, Side.Right).foreach(evict(first, _, unmatched, 50L))
          first.commit()

          val second = on(provider.getStore(1, None), rows, Width, budget)
          assert(second.rows(Side.Left) + second.rows(Side.Right) == 450)
          Seq(Side.Left, Side.Right).foreach(evict(second, _, unmatched, 500L))
          second.commit()
          assert(second.size == JoinState.Size(0, 0, 0, 0, 0), s"budget $budget")
          assert(reading(provider, 2)(kinds) == onlyHeader, s"budget $budget")
        }
      }
    }
  }

  private def values(provider: StateStoreProvider, version: Long): Map[(Int, Long, Long, Int), Seq[Byte]] =
    reading(provider, version) { store =>
      val all = store.iterator()
      def entry(pair: UnsafeRowPair) =
        (pair.key.getInt(1), pair.key.getLong(2), pair.key.getLong(3), pair.key.getInt(0)) ->
          pair.value.getBinary(0).toSeq
      all.map(entry).filter { case ((_, _, _, kind), _) => kind != 0 }.toMap
    }

  test("expired buckets are deleted whole, and the others are not rewritten") {
    Seq(1L, Long.MaxValue).foreach { budget =>
      withProvider(operator = budget) { provider =>
        val first = on(provider.getStore(0, None), rows, Width, budget)
        (0L until 1000L).foreach(i => first.append(Side.Left, rows(simple(i, i % 20, i))))
        first.commit()
        val before = values(provider, 1)
        assert(before.keySet.map(_._2) == (0L to 9L).toSet)
        // Two whole buckets, and half of a third, whose rows are evicted by the limit in the
        // header.
        val second = on(provider.getStore(1, None), rows, Width, budget)
        assert(evict(second, Side.Left, unmatched = false, 250L).isEmpty)
        assert(second.rows(Side.Left) == 750 && second.lowest(Side.Left, 0).contains(250L))
        second.commit()
        assert(values(provider, 2) == before.filter { case ((_, bucket, _, _), _) => bucket >= 2 })
      }
    }
  }

  test("an expired bucket is not read if its rows are not needed") {
    withProvider() { provider =>
      val first = on(provider.getStore(0, None), rows, Width)
      (0L until 300L).foreach(i => first.append(Side.Left, rows(simple(i, i % 20, i))))
      first.commit()
      val store = provider.getStore(1, None)
      val state = on(store, rows, Width, budget = 1)
      assert(state.size.unloaded == 3)
      // What is gone cannot be read.
      val keys = store.iterator().map(_.key.copy()).toSeq
      keys.filter(key => key.getInt(0) == 1 && key.getLong(2) < 2).foreach(store.remove(_))
      val expired = state.expired(Side.Left, Array(200L), unmatched = false)
      assert(!expired.next() && expired.evicted == 200)
      state.commit()
      assert(reading(provider, 2)(kinds) == Map(0 -> 1, 1 -> 1))
    }
  }

  for (budget <- Seq(Long.MaxValue, 1L))
    test(
      s"a bucket that many rows were removed from is rewritten, smaller, with a budget of $budget bytes"
    ) {
      withProvider() { provider =>
        val first = on(provider.getStore(0, None), rows, Width, budget)
        (0L until 100L).foreach(i => first.append(Side.Left, rows(simple(i, i, i))))
        first.commit()
        // As in a semi join: each row matches its partner, and leaves.
        val second = on(provider.getStore(1, None), rows, Width, budget)
        (0L until 60L).foreach(i => second.append(Side.Right, rows(simple(1000 + i, i, i))))
        val matches = second.matches(Side.Right, anyTime)
        while (matches.next()) matches.removeOther()
        evict(second, Side.Right, unmatched = false, 100L)
        second.commit()
        assert(reading(provider, 2)(kinds) == Map(0 -> 1, 1 -> 1), "no separate flags")
        assert(second.committedIndex.buffer(Side.Left).segments.map(_.rows).toSeq == Seq(40))

        // Fewer rows are gone than left: separate flags, which cost less.
        val third = on(provider.getStore(2, None), rows, Width, budget)
        third.append(Side.Right, rows(simple(2000, 99, 0)))
        val few = third.matches(Side.Right, anyTime)
        while (few.next()) few.removeOther()
        evict(third, Side.Right, unmatched = false, 200L)
        third.commit()
        assert(reading(provider, 3)(kinds) == Map(0 -> 1, 1 -> 1, 2 -> 1))
        assert(third.rows(Side.Left) == 39)
        val fourth = on(provider.getStore(3, None), rows, Width, budget)
        assert(fourth.rows(Side.Left) == 39)
        evict(fourth, Side.Left, unmatched = false, 200L)
        fourth.commit()
        assert(reading(provider, 4)(kinds) == onlyHeader, "flags are deleted with their segment")
      }
    }

  test("random batches leave exactly one value per segment and one per set of flags") {
    seeds(default = 20) { seed =>
      withProvider(operator = seed) { provider =>
        val random = new Random(seed)
        val budget = Seq(1L, 6000L, Long.MaxValue)(random.nextInt(3))
        var cached: Option[JoinIndex] = None
        (0 until 15).foreach { batch =>
          val state = on(provider.getStore(batch.toLong, None), rows, Width, budget, cached)
          Seq(Side.Left, Side.Right).foreach { side =>
            (0 until random.nextInt(40)).foreach { i =>
              state.append(side, rows(simple(i, random.nextInt(9), batch * 30 + random.nextInt(200))))
            }
            val matches = state.matches(side, anyTime)
            while (matches.next()) {
              if (random.nextInt(4) == 0) matches.flagOther()
              if (random.nextInt(9) == 0) matches.removeOther()
            }
          }
          Seq(Side.Left, Side.Right).foreach(evict(state, _, unmatched = random.nextBoolean(), batch * 30L))
          state.commit()
          cached = Option.when(random.nextBoolean())(state.committedIndex)
          val all = Seq(Side.Left, Side.Right).map(state.committedIndex.buffer).flatMap(_.segments)
          val expected = Map(0 -> 1, 1 -> all.size, 2 -> all.count(_.flagsInStore)).filter(_._2 > 0)
          assert(reading(provider, batch + 1L)(kinds) == expected, s"batch $batch, budget $budget")
          assert(all.forall(_.live > 0), s"batch $batch: no empty segment is kept")
        }
      }
    }
  }
}
