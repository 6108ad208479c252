package org.apache.spark.sql.streamjoin.state

import scala.collection.mutable
import scala.util.Random

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.streamjoin.SparkTest

/**
 * What a probe of a segment finds, and how many rows it looks at: for a key with many rows, those
 * in its bounds and few more. The probe is that of [[MatchIterator]], which looks at the rows from
 * [[SegmentIndex.from]] until [[SegmentIndex.until]].
 */
class SegmentIndexSuite extends StateTest {
  import TestRows.{number, simple}

  private val rows = simple

  /** A segment, and the places of its rows. */
  private def segmentOf(all: Seq[TestRow]): (Segment, Seq[Int]) =
    segmentOf(rows.layout, new IndexMemory(Long.MaxValue), all.map(rows(_).copy()))

  /**
   * What a row of another segment finds, and how many rows it looks at, including those that the
   * binary search compares. Rows with another part of the hash are not looked at.
   */
  private def probe(segment: Segment, own: Segment, like: Int, from: Long, to: Long): (Seq[Long], Int) =
    if (from > segment.highest(0) || to < segment.lowest(0)) (Nil, 0)
    else {
      val index = segment.keys.index
      val hash = own.hash(like)
      val slot = index.slot(hash)
      val (start, end) = (index.starts(slot), index.starts(slot + 1))
      var looked =
        if (end - start > SegmentIndex.Crowded) 1 + 32 - Integer.numberOfLeadingZeros(end - start) else 0
      var candidate = index.from(segment, slot, from)
      assert(candidate >= start)
      assert(candidate <= end)
      val found = mutable.ArrayBuffer.empty[Long]
      val row = new UnsafeRow(rows.layout.fields)
      val last = index.until(segment, slot, to)
      assert(last >= start)
      assert(last <= end)
      while (candidate < last) {
        val at = candidate
        candidate += 1
        if (index.mayBe(at, hash)) {
          val place = index.place(at)
          val time = segment.expiryTime(place, 0)
          looked += 1
          if (time >= from && time <= to && own.sameKey(like, segment, place)) {
            segment.point(row, place)
            found += number(row)
          }
        }
      }
      (found.toSeq.sorted, looked)
    }

  private def probe(segment: Segment, like: Int, from: Long, to: Long): (Seq[Long], Int) =
    probe(segment, segment, like, from, to)

  private val Hot = 50000

  /** All but a few rows of the segment have one key; they come in any order. */
  private def hot(random: Random, time: Int => Long): Seq[TestRow] =
    random.shuffle((0 until Hot).toIndexedSeq).map { i =>
      simple(i, key = if (i % 100 == 0) i else -1L, time(i))
    }

  test("the filter lets all keys of the segment through, and few others") {
    val (segment, places) = segmentOf((0L until 20000L).map(i => simple(i, 2 * i, i)))
    val (others, elsewhere) = segmentOf((0L until 20000L).map(i => simple(i, 2 * i + 1, i)))
    assert(places.forall(place => segment.keys.index.mayHave(segment.hash(place))))
    val through = elsewhere.count(place => segment.keys.index.mayHave(others.hash(place)))
    assert(through < 20000 / 10)
    assert(through > 0, s"$through of 20000")
    assert(through <= 20000 * 12 / 1000, s"$through of 20000")
  }

  private val spans =
    Seq("seconds" -> 1L, "minutes" -> 1000L, "hours" -> 500000L, "months" -> 50000000L)

  for ((span, step) <- SparkTest.part(spans, every = 4, from = 3))
    test(s"a probe of a hot key looks only at rows in its bounds, rows over $span") {
      val random = new Random(1)
      val all = hot(random, _ * step - 7)
      val (segment, places) = segmentOf(all)
      assert(segment.size < Segment.MaxBytes, "all in one segment")
      val like = places(all.indexWhere(_.key == Seq(-1L)))
      val ordered = all.filter(_.key == Seq(-1L)).sortBy(_.times.head)
      for (width <- Seq(0L, 1L, 100L, 3000L); _ <- 1 to 100) {
        val from = random.nextLong(Hot * step) - 7
        val to = from + width * step
        val expected = ordered.filter(row => row.times.head >= from && row.times.head <= to)
        val (found, looked) = probe(segment, like, from, to)
        assert(found == expected.map(_.number).sorted, s"from $from to $to")
        // The rows that the binary search compares.
        assert(looked <= expected.size + 20, s"looked at, from $from to $to, of $Hot rows with the key")
      }
    }

  test("a probe of a hot key before or after its rows looks at almost none") {
    val all = hot(new Random(2), time => time.toLong)
    val (segment, places) = segmentOf(all)
    val like = places(all.indexWhere(_.key == Seq(-1L)))
    for ((from, to) <- Seq(Long.MinValue -> -1L, Hot + 1L -> Long.MaxValue, Long.MinValue -> Long.MinValue)) {
      val (found, looked) = probe(segment, like, from, to)
      assert(found.isEmpty, s"from $from to $to")
      assert(looked <= 40, s"from $from to $to")
    }
    val (found, looked) = probe(segment, like, Long.MinValue, Long.MaxValue)
    assert(found.size == Hot - Hot / 100)
    assert(looked <= Hot)
  }

  test("a probe of a hot key whose rows all have one time finds them all, or looks at almost none") {
    val (segment, places) = segmentOf((0 until Hot).map(i => simple(i, 1, 77)))
    assert(probe(segment, places.head, 77, 77)._1.size == Hot)
    assert(probe(segment, places.head, 78, 90)._2 <= 40)
    assert(probe(segment, places.head, 0, 76)._2 <= 40)
  }

  test("a hot key does not slow other keys down") {
    val all = hot(new Random(3), time => time.toLong)
    val (segment, places) = segmentOf(all)
    all.zip(places).filter { case (row, _) => row.key != Seq(-1L) }.foreach { case (row, place) =>
      val (found, looked) = probe(segment, place, row.times.head, row.times.head)
      assert(found == Seq(row.number))
      // Its slot may be the hot one, which needs a binary search.
      assert(looked <= 40, s"row ${row.number}")
    }
  }

  test("a key without rows, in the slot of a hot key, looks at almost none") {
    val (segment, _) = segmentOf(hot(new Random(4), time => time.toLong))
    val index = segment.keys.index
    val crowded = (1 until index.starts.length).maxBy(s => index.starts(s) - index.starts(s - 1)) - 1
    val strangers = Iterator.from(Hot).map(i => segmentOf(Seq(simple(i, i, 0)))).filter { case (own, like) =>
      index.slot(own.hash(like.head)) == crowded
    }
    strangers.take(5).foreach { case (own, like) =>
      val (found, looked) = probe(segment, own, like.head, Long.MinValue, Long.MaxValue)
      assert(found.isEmpty)
      assert(looked <= 40)
    }
  }

  test("a probe finds what a filter finds, with rows removed and at any times") {
    seeds(default = 200)(seed => compare(new Random(seed)))
  }

  private def compare(random: Random): Unit = {
    def one[T](choices: T*): T = choices(random.nextInt(choices.size))
    val (keys, count) = (one(1, 2, 10, 300), 1 + random.nextInt(one(3, 20, 600)))
    // A segment spans at most one bucket, whose width fits into a long.
    val origin = one(0L, Long.MinValue, -1000L, 1700000000000000L, -(1L << 61))
    val span = one(1L, 5L, 100L, 1L << 34, 1L << 36, 1L << 50, Long.MaxValue)
    def time(): Long = {
      val time = origin + (if (random.nextBoolean()) random.nextLong(span) else one(0L, span - 1, span / 2))
      if (time < origin) Long.MaxValue else time
    }
    val all = (1 to count).map(i => simple(i, random.nextInt(keys), time()))
    val (segment, places) = segmentOf(all)
    val gone = mutable.Set.empty[Long]
    (1 to 6).foreach { _ =>
      (1 to 20).foreach { _ =>
        val like = random.nextInt(count)
        val (a, b) = (
          if (random.nextBoolean()) time() else random.nextLong(),
          if (random.nextBoolean()) time() else random.nextLong()
        )
        val (from, to) = (math.min(a, b), math.max(a, b))
        val expected = all.filter { row =>
          row.key == all(like).key && row.times.head >= from && row.times.head <= to && !gone(row.number)
        }
        val (found, _) = probe(segment, places(like), from, to)
        assert(found.filterNot(gone) == expected.map(_.number).sorted, s"from $from to $to")
      }
      // Less than half of the rows, which the index may still show; more, which it may not.
      all.zip(places).foreach { case (row, place) =>
        if (random.nextInt(5) == 0) {
          segment.remove(place)
          gone += row.number
        }
      }
      assert(segment.live == count - gone.size)
      assert(
        segment.keys.index.refs.length <= 2 * segment.live + 1,
        "removed rows are not visited forever"
      )
    }
  }
}
