package org.apache.spark.sql.streamjoin.operator

import org.scalatest.funsuite.AnyFunSuite

import streamjoin.core.Watermark

/** The parts of the time range that a batch releases. */
class TimeRangesSuite extends AnyFunSuite {

  private def sizes(ranges: TimeRanges, times: Seq[Long]): Seq[Int] = {
    val parts = times.map(ranges.part)
    assert(parts == parts.sorted, "later times are in later parts")
    (0 until ranges.parts).map(part => parts.count(_ == part))
  }

  test("the time from the previous watermark to the current one is split into equal parts") {
    for (tasks <- 1 to 7; from <- Seq(0L, -1000000L, 123456789L)) {
      val counted = sizes(TimeRanges(from, from + 7000, tasks), from until from + 7000)
      assert(counted.size == tasks, counted)
      assert(counted.max - counted.min <= tasks, counted)
    }
  }

  test("times outside the range are in the first or the last part") {
    val ranges = TimeRanges(100, 200, 4)
    assert(Seq(Long.MinValue, 99L, 100L, 124L).map(ranges.part).forall(_ == 0))
    assert(Seq(199L, 200L, Long.MaxValue).map(ranges.part).forall(_ == 3))
  }

  test("there is one part if an end is unknown or the range is empty") {
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

  test("with a history, most tasks are left for the rows that are on time") {
    val ranges = TimeRanges(10000, 11000, 8, history = 10000)
    val (behind, onTime) = (sizes(ranges, 0L until 10000), sizes(ranges, 10000L until 11000))
    assert(ranges.parts == 8)
    assert(behind.take(2).forall(_ >= 4900))
    assert(behind.drop(2).forall(_ == 0))
    assert(onTime.take(2).forall(_ == 0))
    assert(onTime.drop(2).forall(_ >= 160))
    assert(TimeRanges(0, 10, 2, history = 5).parts == 2)
  }
}
