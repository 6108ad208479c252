package org.apache.spark.sql.streamjoin.state

import scala.util.Random

import org.apache.spark.sql.streamjoin.SparkTest

import streamjoin.core.Side

/** An index holds as much memory as it reports, keeps to its budget, and gives everything back. */
class IndexMemorySuite extends StateTest {
  import TestRows.simple

  private val rows = simple
  private val Width = 50L

  private def segments(index: JoinIndex): Seq[Segment] = Side.both.flatMap(index.buffer(_).segments)

  private def held(segment: Segment): Long = SegmentFormat.arraySize(segment.size).toLong

  /** What stays in memory, whatever the budget. */
  private def own(state: JoinState): Long = state.size.segments * Segment.OwnBytes

  /**
   * One batch: rows for both sides, all pairs within a bucket's width, eviction; calls `each`
   * between its steps.
   */
  private def batch(state: JoinState, random: Random, now: Long, count: Int)(each: => Unit): Unit = {
    Side.both.foreach { side =>
      (0 until count).foreach { i =>
        state.append(side, rows(simple(i, random.nextInt(5), now + random.nextLong(200), random.nextInt(50))))
        each
      }
      val matches = state.matches(side, ProbeTimeRange(Seq(0 -> Width), Seq(0 -> Width)))
      while (matches.next()) {
        if (random.nextInt(3) == 0) matches.flagOther()
        if (random.nextInt(20) == 0) matches.removeOther()
        each
      }
    }
    Side.both.foreach { side =>
      val expired = state.expired(side, Array(now), unmatched = side == Side.Left)
      while (expired.next()) each
    }
  }

  /**
   * Batches on one store, with or without the previous batch's index; at the end, all rows expire.
   */
  private def work(seed: Int, budget: Long)(each: JoinIndex => Unit)(committed: JoinState => Unit): Unit =
    withProvider(operator = seed) { provider =>
      val random = new Random(seed)
      var cached: Option[JoinIndex] = None
      (0 until 8).foreach { i =>
        val state = on(provider.getStore(i.toLong, None), rows, Width, budget, cached)
        batch(state, random, i * 60L, random.nextInt(80))(each(state.committedIndex))
        state.commit()
        committed(state)
        cached = Option.when(random.nextInt(3) > 0)(state.committedIndex)
      }
      val last = on(provider.getStore(8, None), rows, Width, budget, cached)
      Side.both.foreach(evict(last, _, unmatched = random.nextBoolean(), Long.MaxValue))
      last.commit()
      assert(last.size == JoinState.Size(0, 0, 0, 0, 0), "all memory is given back")
    }

  private val budgets = Seq(0L, 1L, 5000L, 20000L, 100000L, Long.MaxValue)

  for (budget <- SparkTest.part(budgets, every = 3))
    test(s"after a commit a budget of $budget bytes is kept, and the count is right") {
      seeds(default = 4) { seed =>
        work(seed, budget)(_ => ()) { state =>
          val index = state.committedIndex
          assert(state.size.index <= budget || state.size.unloaded == state.size.segments)
          if (budget == Long.MaxValue) assert(state.size.unloaded == 0)
          if (budget < 48) {
            assert(state.size.unloaded == state.size.segments)
            assert(state.size.index == own(state))
          }
          val loaded = segments(index).filter(_.isLoaded)
          assert(state.size.segments - state.size.unloaded == loaded.size)
          assert(index.memory.keys <= budget / 2)
          // Rows, and for some segments an index of them. Once the other indexes are built, it is
          // the sum of both, plus the flags of some segments.
          val always = index.memory.spare + index.memory.keys + own(state)
          assert(index.memory.used >= always + loaded.map(held).sum)
          loaded.foreach(_.keys.index)
          loaded.foreach(_.keys.dropHashes())
          val whole = loaded.map(segment => held(segment) + segment.keys.index.bytes).sum
          val flags =
            loaded.map(segment => SegmentFormat.arraySize(SegmentFormat.flagsSize(segment.rows)).toLong)
          assert(index.memory.used - always - whole >= 0)
          assert(index.memory.used - always - whole <= flags.sum)
        }
      }
    }

  for (budget <- SparkTest.part(budgets, every = 3, from = 1))
    test(s"within a batch a budget of $budget bytes is exceeded by at most a page and two segments") {
      seeds(default = 4) { seed =>
        work(seed, budget) { index =>
          // The incoming rows, or two segments being compared, one of them with its index, which is
          // about as large as the segment.
          val largest = segments(index).map(held).maxOption.getOrElse(0L).max(1024)
          val always = segments(index).size.toLong * Segment.OwnBytes
          val most = budget + IndexMemory.PageBytes + 3 * largest + always
          assert(budget == Long.MaxValue || index.memory.used <= most)
        }(_ => ())
      }
    }

  test("rows that were only appended are within the budget after the commit") {
    budgets.foreach { budget =>
      withProvider(operator = budget) { provider =>
        val state = on(provider.getStore(0, None), rows, Width, budget)
        (0L until 1000L).foreach(i => state.append(Side.Left, rows(simple(i, i, 7))))
        state.commit()
        assert(state.size.index <= math.max(budget, own(state)))
        assert(state.rows(Side.Left) == 1000)
      }
    }
  }

  test("a version is opened within the budget") {
    withProvider() { provider =>
      val first = on(provider.getStore(0, None), rows, Width)
      batch(first, new Random(1), 0, 500)(())
      first.commit()
      val stored = first.size.stored
      val whole = segments(first.committedIndex).map(held).sum
      budgets.foreach { budget =>
        val store = provider.getStore(1, None)
        val state = on(store, rows, Width, budget)
        val always = own(state) + state.committedIndex.memory.keys
        assert(state.size.index <= math.max(budget, always))
        assert(state.size.stored == stored)
        if (budget > whole + own(state)) {
          assert(state.size.index == whole + own(state))
          assert(state.size.unloaded == 0)
        }
        store.abort()
      }
    }
  }

  test("a read-only index stays within the budget, and reads rows back as needed") {
    withProvider() { provider =>
      val first = on(provider.getStore(0, None), rows, Width)
      (0L until 1000L).foreach(i => first.append(Side.Right, rows(simple(i, i, i))))
      first.commit()
      budgets.foreach { budget =>
        reading(provider, 1) { store =>
          val index = IndexReading.readOnly(store, Seq(rows.layout, rows.layout), budget)
          val always = segments(index).size.toLong * Segment.OwnBytes + index.memory.keys
          assert(index.memory.used <= math.max(budget, always))
          assert(index.memory.keys <= budget / 2)
          val before = index.memory.used
          assert(rowsOf(index, store).map(found => TestRows.number(found.row)).sorted == (0L until 1000L))
          assert(index.memory.used == before)
          assert(index.buffer(Side.Right).rows == 1000)
          assert(index.buffer(Side.Left).rows == 0)
        }
      }
    }
  }

  test("a segment gives its index back when most of its rows are gone, and everything when dropped") {
    val memory = new IndexMemory(Long.MaxValue)
    val (segment, places) =
      segmentOf(rows.layout, memory, (0L until 100L).map(i => rows(simple(i, 1, i)).copy()))
    val held = SegmentFormat.arraySize(segment.size).toLong + Segment.OwnBytes
    assert(memory.used == held)
    val index = segment.keys.index.bytes
    segment.keys.dropHashes()
    assert(index >= 100 * 8)
    assert(memory.used == held + index)
    places.take(60).foreach(segment.remove)
    assert(memory.used == held, "more are gone than are left")
    segment.keys.index
    segment.unload()
    assert(memory.used == Segment.OwnBytes + 400L, "the key hashes of a hundred rows")
    segment.unload()
    assert(memory.used == Segment.OwnBytes + 400L)
    segment.discard()
    segment.discard()
    assert(memory.used == 0)
  }

  test("key hashes take at most half of the memory, and are given back") {
    val memory = new IndexMemory(1000)
    val all = (0 until 2).map { _ =>
      segmentOf(rows.layout, memory, (0L until 100L).map(i => rows(simple(i, i, i)).copy()))._1
    }
    all.foreach(_.unload())
    assert(memory.keys == 400)
    val absent = (1000L until 1100L).map(i =>
      all.head.layout.hash(rows(simple(i, i, i)).getBaseObject, rows(simple(i, i, i)).getBaseOffset)
    )
    assert(absent.count(all.head.keys.mayHave) == 0)
    assert(absent.forall(all(1).keys.mayHave))
    all.foreach(_.discard())
    assert(memory.keys == 0)
    assert(memory.used == 0)
  }
}
