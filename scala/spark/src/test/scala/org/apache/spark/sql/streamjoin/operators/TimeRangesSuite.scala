package org.apache.spark.sql.streamjoin.operators

import org.scalatest.funsuite.AnyFunSuite

import streamjoin.core.Watermark

/** The parts of the time that a batch lets go of. */
class TimeRangesSuite extends AnyFunSuite {

  private def sizes(ranges: TimeRanges, times: Seq[Long]): Seq[Int] = {
    val parts = times.map(ranges.part)
    assert(parts == parts.sorted, "later times are in later parts")
    (0 until ranges.parts).map(part => parts.count(_ == part))
  }

  test("the time from the watermark of the batch before to that of this one, in equal parts") {
    for (tasks <- 1 to 7; from <- Seq(0L, -1000000L, 123456789L)) {
      val counted = sizes(TimeRanges(from, from + 7000, tasks), from until from + 7000)
      assert(counted.size == tasks && counted.max - counted.min <= tasks, counted)
    }
  }

  test("times outside are in the first and in the last part") {
    val ranges = TimeRanges(100, 200, 4)
    assert(Seq(Long.MinValue, 99L, 100L, 124L).map(ranges.part).forall(_ == 0))
    assert(Seq(199L, 200L, Long.MaxValue).map(ranges.part).forall(_ == 3))
  }

  test("one part where an end is not known, or there is no time between them") {
    val none = Watermark.Undefined
    for (
      (from, to) <- Seq(
        none -> 5L,
        5L -> none,
        none -> none,
        5L -> 5L,
        6L -> 5L,
        Long.MinValue + 1 -> Long.MaxValue
      )
    )
      assert(TimeRanges(from, to, 4).parts == 1)
  }

  test("rows behind by a history leave most of the tasks to those on time") {
    val ranges = TimeRanges(10000, 11000, 8, history = 10000)
    val (behind, onTime) = (sizes(ranges, 0L until 10000), sizes(ranges, 10000L until 11000))
    assert(ranges.parts == 8 && behind.take(2).forall(_ >= 4900) && behind.drop(2).forall(_ == 0))
    assert(onTime.take(2).forall(_ == 0) && onTime.drop(2).forall(_ >= 160))
    assert(TimeRanges(0, 10, 2, history = 5).parts == 2)
  }
}
