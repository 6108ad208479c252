package org.apache.spark.sql.streamjoin.state

import scala.util.Random

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.streamjoin.SparkTest

import streamjoin.core.Side

/** Buckets stay few, whatever the span and the order of the rows, and every pair is found. */
class BucketsSuite extends StateTest {
  import TestRows.simple

  private val rows = simple
  private val Width = 100L

  test("a time lies in one bucket of each level, and that bucket in one of each level above") {
    val random = new Random(1)
    (0 until 2000).foreach { _ =>
      val width = 1L + random.nextInt(1 << random.nextInt(30))
      val time = random.nextLong() >> random.nextInt(60)
      val bucket = Buckets.of(time, width)
      assert(Buckets.level(bucket) == 0)
      assert(Buckets.raised(bucket, 0) == bucket)
      val highest = Buckets.highestLevel(width)
      (0 to highest).foreach { level =>
        val above = Buckets.raised(bucket, level)
        assert(Buckets.level(above) == level)
        assert(above >= Buckets.first(level))
        assert(above <= Buckets.last(level))
        assert(Buckets.span(above, width) == width * BigInt(4).pow(level), s"$width, $level")
        (level to highest).foreach(to => assert(Buckets.raised(above, to) == Buckets.raised(bucket, to)))
      }
    }
  }

  test("buckets of a level do not overlap, and follow one another in the order of time") {
    for (level <- Seq(0, 1, 3); time <- Seq(-100000L, -1L, 0L, 1L, 12345L, 10000000L)) {
      val bucket = Buckets.raised(Buckets.of(time, Width), level)
      val span = Buckets.span(bucket, Width)
      val begin = Math.floorDiv(time, span) * span
      def at(time: Long) = Buckets.raised(Buckets.of(time, Width), level)
      assert(at(begin) == bucket)
      assert(at(begin + span - 1) == bucket)
      assert(at(begin - 1) == bucket - 1)
      assert(at(begin + span) == bucket + 1)
    }
  }

  test("the level of a batch is the lowest at which its rows lie in few buckets, in any order") {
    val random = new Random(2)
    def levelOf(buckets: Seq[Long]): Int = {
      val level = new BatchLevel(20)
      buckets.foreach(level.add)
      level.level
    }
    assert(levelOf(0L until 64L) == 0)
    assert(levelOf(0L until 65L) == 1)
    assert(levelOf(0L until 10000L) == 4)
    (0 until 200).foreach { _ =>
      val buckets = Seq.fill(random.nextInt(500))(random.nextLong(1L << random.nextInt(40)))
      val expected = (0 to 20).find(to => buckets.map(Buckets.raised(_, to)).distinct.size <= 64).get
      assert(levelOf(buckets) == expected)
      assert(levelOf(random.shuffle(buckets)) == expected)
    }
  }

  private def times(random: Random, count: Int, span: Long): Seq[Long] =
    Seq.fill(count)(random.nextLong(span))

  /** The pairs at most `by` apart, as the numbers of a left and a right row. */
  private def within(left: Seq[TestRow], right: Seq[TestRow], by: Long): Set[(Long, Long)] = {
    val keyed = right.groupBy(_.key)
    left.flatMap { one =>
      keyed
        .getOrElse(one.key, Nil)
        .filter(other => (one.times.head - other.times.head).abs <= by)
        .map(one.number -> _.number)
    }.toSet
  }

  private def near(by: Long) = ProbeTimeRange(Seq(0 -> by), Seq(0 -> by))

  for (budget <- Seq(Long.MaxValue, 30000L))
    test(s"a first batch over a long history has few segments, and its pairs are found, budget $budget") {
      withProvider() { provider =>
        val random = new Random(3)
        val (span, by) = (4000000L, 2000L)
        def some(side: Int, count: Int) = times(random, count, span).zipWithIndex.map { case (time, i) =>
          simple(side * 10000L + i, random.nextInt(20), time)
        }
        val (left, right) = (some(0, 3000), some(1, 3000))
        val state = on(provider.getStore(0, None), rows, Width, budget)
        left.foreach(row => state.append(Side.Left, rows(row)))
        assert(pairs(state, Side.Left, near(by)).isEmpty)
        right.foreach(row => state.append(Side.Right, rows(row)))
        val found = pairs(state, Side.Right, near(by)).map(_.swap)
        assert(found.distinct.size == found.size)
        assert(found.toSet == within(left, right, by))
        state.commit()
        assert(state.size.segments <= 2 * 64)

        // Later rows, close together, match rows of the wide buckets; half of those are evicted.
        val next = on(provider.getStore(1, None), rows, Width, budget)
        val later = times(random, 300, 3 * Width).zipWithIndex.map { case (time, i) =>
          simple(20000L + i, random.nextInt(20), span / 2 + time)
        }
        later.foreach(row => next.append(Side.Right, rows(row)))
        assert(pairs(next, Side.Right, near(by)).map(_.swap).toSet == within(left, later, by))
        val unmatched = evict(next, Side.Left, unmatched = true, span / 2)
        assert(unmatched == left.filter(_.times.head < span / 2).map(_.number).sorted)
        next.commit()
        assert(next.rows(Side.Left) == left.count(_.times.head >= span / 2))
        assert(next.lowest(Side.Left, 0).contains(left.map(_.times.head).filter(_ >= span / 2).min))
      }
    }

  /** Small batches, each in its own bucket, while nothing is evicted. */
  private def stalled(batches: Int, perBatch: Int, budget: Long)(
      each: (Int, JoinState) => Unit
  ): Unit = withProvider() { provider =>
    var cached: Option[JoinIndex] = None
    (0 until batches).foreach { batch =>
      val state = on(provider.getStore(batch.toLong, None), rows, Width, budget, cached)
      (0 until perBatch).foreach { i =>
        val number = batch.toLong * perBatch + i
        state.append(Side.Left, rows(simple(number, number % 50, batch * Width + i)))
      }
      state.commit()
      each(batch, state)
      cached = Option.when(batch % 7 != 0)(state.handOver())
    }
  }

  for (budget <- SparkTest.part(Seq(Long.MaxValue, 20000L), every = 2, from = 1))
    test(s"small batches next to a stalled input leave few segments, budget $budget") {
      val (batches, perBatch) = (700, 3)
      var most = 0L
      var last: Seq[(Long, Long, Int)] = Nil
      var written = 0L
      stalled(batches, perBatch, budget) { (_, state) =>
        most = math.max(most, state.size.segments)
        val now = state.committedIndex.buffer(Side.Left).segments.map(s => (s.bucket, s.number, s.rows)).toSeq
        written += now.diff(last).map(_._3.toLong).sum
        last = now
        assert(state.committedIndex.buffer(Side.Left).rows == (now.map(_._3).sum: Long))
      }
      assert(most <= Compaction.MostSmall + Compaction.MostSmall / 4 * 2)
      assert(last.map(_._3).sum == batches * perBatch)
      assert(written <= 3L * batches * perBatch)
    }

  test("rows of merged buckets keep their flags, are found, and are evicted in time") {
    withProvider() { provider =>
      var version = 0L
      var cached: Option[JoinIndex] = None
      def batch(body: JoinState => Unit): Unit = {
        val state = on(provider.getStore(version, None), rows, Width, cached = cached)
        body(state)
        state.commit()
        version += 1
        cached = Option.when(version % 5 != 0)(state.handOver())
      }
      // Rows far apart, a few per batch: one in three is matched, one in three removed.
      val count = 600L
      def timeOf(number: Long) = number * 10 * Width
      (0L until count by 6L).foreach { from =>
        batch { state =>
          (from until from + 6).foreach { number =>
            state.append(Side.Left, rows(simple(number, number, timeOf(number))))
          }
          (from until from + 6).foreach { number =>
            state.append(Side.Right, rows(simple(number, number, timeOf(number))))
          }
          val matches = state.matches(Side.Right, near(0))
          while (matches.next()) TestRows.number(matches.otherRow) % 3 match {
            case 0 => matches.flagOther()
            case 1 => matches.removeOther()
            case _ =>
          }
          assert(evict(state, Side.Right, unmatched = false, timeOf(count)).isEmpty)
        }
      }
      cached = None
      batch { state =>
        val buffer = state.committedIndex.buffer(Side.Left)
        assert(buffer.rows == count * 2 / 3)
        assert(buffer.segments.size <= Compaction.MostSmall)
        assert(buffer.segments.exists(s => Buckets.level(s.bucket) > 0))
        // Each row is found by its key and time, however wide its bucket.
        (0L until count).foreach(i => state.append(Side.Right, rows(simple(count + i, i, timeOf(i) + 5))))
        val met = pairs(state, Side.Right, near(5)).map(_._2)
        assert(met == (0L until count).filter(_ % 3 != 1))
        val half = timeOf(count / 2)
        assert(evict(state, Side.Left, unmatched = true, half) == (0L until count / 2).filter(_ % 3 == 2))
      }
    }
  }

  test("what is written depends neither on the memory nor on whether the index was cached") {
    def contents(budget: Long, keeps: Int => Boolean, operator: Long): Seq[Seq[Byte]] =
      withProvider(operator = operator) { provider =>
        val random = new Random(5)
        var cached: Option[JoinIndex] = None
        (0 until 320).foreach { batch =>
          val state = on(provider.getStore(batch.toLong, None), rows, Width, budget, cached)
          (0 until random.nextInt(4)).foreach { i =>
            state.append(Side.Left, rows(simple(batch * 4L + i, i, random.nextLong(1000) * Width * 50)))
          }
          evict(state, Side.Left, unmatched = false, batch * Width)
          state.commit()
          cached = Option.when(keeps(batch))(state.handOver())
        }
        reading(provider, 320) { store =>
          val all = store.iterator()
          try
            all
              .filter(_.key.getInt(0) != 0)
              .map(pair => pair.key.getBytes.toSeq ++ pair.value.asInstanceOf[UnsafeRow].getBytes.toSeq)
              .toSeq
              .sortBy(_.hashCode)
          finally all.close()
        }
      }
    val whole = contents(Long.MaxValue, _ => true, 1)
    assert(whole.size < 320)
    assert(contents(1, _ => true, 2) == whole)
    assert(contents(9000, _ % 3 == 0, 3) == whole)
  }
}
