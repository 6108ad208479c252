package org.apache.spark.sql.streamjoin.state

import scala.util.Random

import org.apache.spark.sql.execution.streaming.state.StateStore
import org.apache.spark.sql.types.LongType

import streamjoin.core.Side

/**
 * Rows that each carry the time by which they leave: how wide their buckets are, and how many
 * segments a probe visits.
 */
class LifetimesSuite extends StateTest {
  private val Millisecond = 1000L
  private val Second = 1000 * Millisecond
  private val Day = 24 * 3600 * Second
  private val Week = 7 * Day

  /** A left row leaves by its end, or a month after its time; its times are these two. */
  private val left = new TestRows(Seq(LongType), Seq(0, 1))
  private val right = new TestRows(Seq(LongType), Seq(0))
  private val layouts = Seq(left.layout, right.layout)
  private val byEnd = LifetimeWidth(time = 1, delay = 0, narrowest = 5 * Second, widest = 30 * Day, parts = 8)

  private def state(
      store: StateStore,
      cached: Option[JoinIndex] = None,
      by: Option[LifetimeWidth] = Some(byEnd)
  ) =
    new JoinState(
      store,
      layouts,
      Seq(5 * Second, 5 * Second),
      Long.MaxValue,
      cached,
      byLifetimes = Seq(by, None)
    )

  private def widths(
      store: org.apache.spark.sql.execution.streaming.state.StateStoreProvider,
      version: Long
  ) =
    reading(store, version)(new KeptRows(_, layouts).headers.map(_.bucketWidth))

  private def leftRow(number: Long, time: Long, lifetime: Long, wide: Int = 0) =
    left(TestRow(number, Seq(number % 20), Seq(time + lifetime, time), wide))

  private def rightRow(number: Long, time: Long) = right(TestRow(number, Seq(number % 20), Seq(time, time)))

  test("buckets are about an eighth of the lifetime that half of the rows do not exceed, plus the delay") {
    def width(lifetime: Long, delay: Long) = 5 * Second << (2 * byEnd.copy(delay = delay).level(lifetime))
    assert(width(0, 0) == 5 * Second)
    assert(width(40 * Second, 0) == 5 * Second)
    assert(width(80 * Second, 0) == 20 * Second)
    assert(width(Millisecond, 160 * Second) == 20 * Second)
    for (lifetime <- Seq(100 * Second, Day, 10 * Day, 20 * Week, Long.MaxValue); delay <- Seq(0L, Day)) {
      val wanted = math.min(30 * Day, ((BigInt(lifetime) + delay) / 8).min(Long.MaxValue).toLong)
      assert(width(lifetime, delay) <= 2 * wanted && width(lifetime, delay) * 2 >= wanted)
    }
  }

  for (
    (name, lifetimes, expected) <- Seq(
      ("milliseconds", Seq(1L, 100 * Millisecond, 300 * Millisecond), 5 * Second),
      ("weeks", Seq(Week, 2 * Week, 3 * Week), (5L << 16) * Second),
      ("a few very long ones", Seq(1L, 1L, 200 * Second, Week), 5 * Second),
      ("all in the past", Seq(-Day, -Second), 5 * Second)
    )
  ) test(s"the first rows decide the width, which is stored: $name") {
    withProvider() { provider =>
      val first = state(provider.getStore(0, None))
      lifetimes.zipWithIndex.foreach { case (lifetime, n) =>
        first.append(Side.Left, leftRow(n.toLong, Day, lifetime))
      }
      first.commit()
      assert(widths(provider, 1) == Seq(expected, 5 * Second))
      // Others do not change it, in memory or read again, as long as one of the first is there.
      val second = state(provider.getStore(1, None), Some(first.committedIndex))
      second.append(Side.Left, leftRow(10, 2 * Day, 4 * Week))
      second.commit()
      val third = state(provider.getStore(2, None))
      third.append(Side.Left, leftRow(11, 2 * Day, Second))
      third.commit()
      assert(widths(provider, 3) == Seq(expected, 5 * Second))
      assert(third.rows(Side.Left) == lifetimes.size + 2)
      // Once all have left, the next rows decide.
      val fourth = state(provider.getStore(3, None), Some(third.committedIndex))
      evict(fourth, Side.Left, unmatched = false, Long.MaxValue, Long.MaxValue)
      fourth.commit()
      val fifth = state(provider.getStore(4, None), Some(fourth.committedIndex))
      fifth.append(Side.Left, leftRow(12, 3 * Day, 80 * Second))
      fifth.commit()
      assert(widths(provider, 5) == Seq(20 * Second, 5 * Second))
    }
  }

  test("a first batch that is taken back decides again") {
    withProvider() { provider =>
      def attempt(lifetime: Long, index: Option[JoinIndex]): JoinState = {
        val state = this.state(provider.getStore(1, None), index)
        state.append(Side.Left, leftRow(1, Day, lifetime))
        state.commit()
        state
      }
      val empty = state(provider.getStore(0, None))
      empty.commit()
      val first = attempt(Week, Some(empty.committedIndex))
      val again = attempt(Second, Some(first.committedIndex))
      assert(again.rewound)
      assert(widths(provider, 2) == Seq(5 * Second, 5 * Second))
      val next = state(provider.getStore(2, None), Some(again.committedIndex))
      next.append(Side.Right, rightRow(1, Day))
      assert(pairs(next, Side.Right, ofRight) == Seq(1L -> 1L))
      next.abort()
    }
  }

  for (wide <- Seq(0, 100000))
    test(s"a large first batch lies in buckets of the same width, rows of $wide bytes") {
      withProvider() { provider =>
        val first = state(provider.getStore(0, None))
        (0 until 400)
          .foreach(n => first.append(Side.Left, leftRow(n.toLong, n * 3600 * Second, n % 21 * Day, wide)))
        first.commit()
        val width = widths(provider, 1).head
        assert(width > 5 * Second)
        val index = first.committedIndex.buffer(Side.Left)
        val buckets = index.segments.map(_.bucket).toSeq.distinct
        assert(buckets.forall(Buckets.level(_) == 0) && buckets.size <= 64, buckets)
        index.segments.foreach { segment =>
          assert(Buckets.of(segment.lowest(0), width) == segment.bucket)
          assert(Buckets.of(segment.highest(0), width) == segment.bucket)
        }
        val second = state(provider.getStore(1, None))
        (0 until 400).foreach(n => second.append(Side.Right, rightRow(n.toLong, n * 3600 * Second)))
        val found = pairs(second, Side.Right, ofRight).count { case (right, left) => left <= right }
        assert(found == expected(400, n => n * 3600 * Second, n => n % 21 * Day))
        second.abort()
      }
    }

  private def expected(count: Int, time: Int => Long, lifetime: Int => Long): Int = (for {
    r <- 0 until count
    l <- 0 until count
    if l % 20 == r % 20 && time(l) <= time(r) && time(r) <= time(l) + lifetime(l)
  } yield 1).sum

  // Probes.

  /** The end is not before the time of the right row; the time is, by at most a month. */
  private def ofRight =
    ProbeTimeRange(Seq(0 -> 0L), Nil, Seq(ProbeTimeRange(Seq(0 -> 30 * Day), Seq(0 -> 0L))))

  private def ofLeft = ProbeTimeRange(Seq(1 -> 0L), Seq(0 -> 0L))

  /** How many matches the right rows of a batch find, and how often segments are probed. */
  private def probes(state: JoinState, reach: ProbeTimeRange): (Int, Int) = {
    val matches = state.matches(Side.Right, reach)
    var found = 0
    // The left row has begun.
    while (matches.next()) if (matches.otherRow.getLong(3) <= matches.ownRow.getLong(2)) found += 1
    (found, matches.probes)
  }

  test("lifetimes of milliseconds: a batch over ten minutes visits few segments for each of its own") {
    def time(n: Int) = Day + n * 300 * Millisecond
    def lifetime(n: Int) = 1L + n * 7919 % 300 * Millisecond
    def run(reach: ProbeTimeRange): (Int, Int, Int) = withProvider() { provider =>
      val batch = state(provider.getStore(0, None))
      (0 until 2000).foreach(n => batch.append(Side.Left, leftRow(n.toLong, time(n), lifetime(n))))
      assert(pairs(batch, Side.Left, ofLeft).isEmpty)
      (0 until 2000).foreach(n => batch.append(Side.Right, rightRow(n.toLong, time(n) + 50 * Millisecond)))
      val (found, visited) = probes(batch, reach)
      val segments = batch.size.segments.toInt / 2
      batch.abort()
      (found, visited, segments)
    }
    val (found, visited, segments) = run(ofRight)
    val (allFound, allVisited, _) = run(ofRight.copy(others = Nil))
    assert(found == (0 until 2000).count(lifetime(_) >= 50 * Millisecond))
    assert(allFound == found)
    assert(segments >= 20)
    assert(visited <= 3 * segments, "those of about the same time")
    assert(allVisited >= segments * segments / 3, "all later ones, without the filter")
  }

  test("lifetimes of weeks: few segments, and a probe visits only those whose rows have begun") {
    def run(by: Option[LifetimeWidth]): (Int, Int) = withProvider() { provider =>
      val random = new Random(1)
      var cached: Option[JoinIndex] = None
      // Ten weeks of the left input, while the right one stands still.
      (0 until 70).foreach { day =>
        val batch = state(provider.getStore(day.toLong, None), cached, by)
        (0 until 40).foreach { n =>
          batch.append(
            Side.Left,
            leftRow(day * 40L + n, day * Day + n * 60 * Second, Week + random.nextLong(2 * Week))
          )
        }
        assert(pairs(batch, Side.Left, ofLeft).isEmpty)
        batch.commit()
        cached = Some(batch.committedIndex)
      }
      val batch = state(provider.getStore(70, None), cached, by)
      val segments = batch.size.segments.toInt
      // Forty rows have begun a day before, and one now.
      (0 until 20).foreach(n => batch.append(Side.Right, rightRow(n.toLong, Day)))
      val (found, visited) = probes(batch, ofRight)
      batch.abort()
      assert(found == 41)
      (segments, visited)
    }
    val (segments, visited) = run(Some(byEnd))
    val (narrow, _) = run(None)
    assert(segments <= 80, "an eighth of two weeks each")
    assert(narrow > 2 * segments)
    assert(visited < segments / 2)
  }
}
