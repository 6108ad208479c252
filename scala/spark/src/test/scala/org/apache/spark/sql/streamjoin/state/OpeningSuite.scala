package org.apache.spark.sql.streamjoin.state

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.execution.streaming.state.{StateStore, StateStoreProvider}
import org.apache.spark.unsafe.Platform

import streamjoin.core.Side

/**
 * A version is opened from what its segments record about themselves; their rows are read only if
 * that is not enough.
 */
class OpeningSuite extends StateTest {
  import TestRows.{number, simple}

  private val rows = simple
  private val layouts = Seq(rows.layout, rows.layout)

  private val keyOf = UnsafeProjection.create(SegmentStore.KeySchema)
  private val valueOf = UnsafeProjection.create(SegmentStore.ValueSchema)
  private def key(kind: Int, side: Int, bucket: Long): UnsafeRow =
    keyOf(InternalRow(kind, side, bucket, 0L)).copy()

  /**
   * Shifts the times of all rows of a segment, which shows whether its rows are read or only its
   * header.
   */
  private def laterBy(store: StateStore, bucket: Long, by: Long): Unit = {
    val at = key(1, 0, bucket)
    val value = SegmentFormat.copyOf(store.get(at))
    val segment = new Segment(rows.layout, bucket, new IndexMemory(Long.MaxValue))
    segment.load(value, null)
    val row = new UnsafeRow(rows.layout.fields)
    segment.foreachPlace { (_, place) =>
      segment.point(row, place)
      Seq(2, 3).foreach(field => row.setLong(field, row.getLong(field) + by))
    }
    SegmentFormat.writeHeader(value, 0, bucket, 0, segment.rows, rows.layout.fields, batch = 0)
    val size = SegmentFormat.size(value)
    val bytes = new Array[Byte](size)
    Platform.copyMemory(
      value,
      Platform.BYTE_ARRAY_OFFSET + 16L,
      bytes,
      Platform.BYTE_ARRAY_OFFSET,
      size.toLong
    )
    store.put(at, valueOf(InternalRow(bytes)))
  }

  /** Left rows 0 to 39, ten per bucket. */
  private def filled(provider: StateStoreProvider): JoinState = {
    val state = on(provider.getStore(0, None), rows)
    (0L until 40L).foreach(i => state.append(Side.Left, rows(simple(i, i, i))))
    state
  }

  for (budget <- Seq(1L, Long.MaxValue))
    test(s"only segments that have lost rows are read, budget $budget") {
      withProvider() { provider =>
        val first = filled(provider)
        first.commit()
        val second = on(provider.getStore(1, None), rows, cached = Some(first.handOver()))
        Seq(12L, 22L).foreach(i => second.append(Side.Right, rows(simple(100 + i, i, i))))
        val matches = second.matches(Side.Right, anyTime)
        while (matches.next())
          if (number(matches.otherRow) == 12) matches.removeOther()
          else if (number(matches.otherRow) == 22) matches.flagOther()
        // Some rows of the first bucket have expired, one of the second is removed, and one of the
        // third is matched.
        evict(second, Side.Left, unmatched = false, 5L)
        second.commit()
        val store = provider.getStore(2, None)
        (0L until 4L).foreach(laterBy(store, _, by = 1000))
        val state = on(store, rows, budget = budget)
        val buckets = state.committedIndex.buffer(Side.Left).segments.map(s => s.bucket -> s).toMap
        val looked = buckets.filter(_._2.lowest(0) >= 1000).keySet
        // To stay in memory, a segment needs its flags next to its rows.
        assert(looked == (if (budget == 1) Set(0L, 1L) else Set(0L, 1L, 2L)))
        if (budget == 1) assert(state.size.index == state.size.segments * Segment.OwnBytes)
        else assert(state.size.unloaded == 0)
        store.abort()
      }
    }

  test("what segments record about themselves agrees with their rows") {
    withProvider() { provider =>
      filled(provider).commit()
      reading(provider, 1) { store =>
        val (open, loaded) =
          (IndexReading.readOnly(store, layouts, 1), IndexReading.readOnly(store, layouts, Long.MaxValue))
        def figures(index: JoinIndex) = index
          .buffer(Side.Left)
          .segments
          .map { s =>
            (s.bucket, s.rows, s.live, s.liveBytes, s.payload, s.size, s.lowest(0), s.highest(0))
          }
          .toSeq
        assert(figures(open) == figures(loaded))
        assert(figures(open).map(f => (f._7, f._8)) == Seq(0L -> 9L, 10L -> 19L, 20L -> 29L, 30L -> 39L))
        assert(open.memory.used == 4 * Segment.OwnBytes)
      }
    }
  }

  test("the segments with the most time left are loaded first, in whatever order they are read") {
    for (store <- Seq(defaultStore, rocksDb)) withProvider(store, operator = store.length.toLong) {
      provider =>
        val first = filled(provider)
        first.commit()
        val half = first.size.stored / 2 + 4 * Segment.OwnBytes + 200
        reading(provider, 1) { store =>
          val index = IndexReading.readOnly(store, layouts, half)
          val (in, out) = index.buffer(Side.Left).segments.toSeq.partition(_.isLoaded)
          assert(in.map(_.bucket) == Seq(2L, 3L))
          assert(out.map(_.bucket) == Seq(0L, 1L))
        }
    }
  }

  test("flags can be written repeatedly without reading the rows") {
    val memory = new IndexMemory(Long.MaxValue)
    val (segment, places) =
      segmentOf(rows.layout, memory, (0L until 100L).map(i => rows(simple(i, i, i)).copy()))
    def expected(matched: Set[Int], gone: Set[Int]): Seq[Int] =
      (0 until 100).map(i => (if (matched(i)) 1 else 0) | (if (gone(i)) 2 else 0))
    def written: Seq[Int] = (0 until 100).map(SegmentFormat.flags(segment.flagsImage, _))
    segment.flagMatched(places(3))
    assert(written == expected(Set(3), Set.empty))
    val kept = segment.flagsImage
    segment.flagMatched(places(99))
    segment.remove(places(50))
    segment.remove(places(3))
    assert(written == expected(Set(3, 99), Set(50, 3)))
    assert(segment.flagsImage eq kept, "the image is made once")
    // Expired rows are not flagged: that follows from the limits.
    segment.expire(places(7))
    assert(written == expected(Set(3, 99), Set(50, 3)))
    val again = new Segment(rows.layout, 0, memory)
    again.load(segment.sealedImage(0, batch = 0).clone(), null)
    assert((0 until 100).map(SegmentFormat.flags(again.flagsImage, _)) == expected(Set(3, 99), Set(50, 3, 7)))
  }
}
