package org.apache.spark.sql.streamjoin.analysis

import java.time.{Duration, Instant, ZoneId, ZoneOffset}

import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.prop.TableDrivenPropertyChecks

import org.apache.spark.sql.catalyst.expressions.Alias
import org.apache.spark.sql.catalyst.plans.logical.{OneRowRelation, Project}
import org.apache.spark.sql.streamjoin.SparkTest
import org.apache.spark.sql.streamjoin.time.{BatchTime, ClockChanges}
import org.apache.spark.sql.types.TimeType

class ClockChangesSuite extends AnyFunSuite with TableDrivenPropertyChecks {
  private val Hour = Duration.ofHours(1).toMillis * 1000
  private val Day = 24 * Hour

  private def largest(zone: String, span: Long): Long = ClockChanges.largest(ZoneId.of(zone), span)

  test("a zone without clock changes has none over any span") {
    forAll(Table("zone", "UTC", "+05:30", "Z", "GMT", "-11:00", "Etc/GMT+4")) { zone =>
      Seq(0L, 1L, Day, 36500 * Day).foreach(span => assert(largest(zone, span) == 0, s"over $span"))
    }
  }

  test("in a zone with summer time, clocks change by an hour over one to seven days") {
    forAll(Table("zone", "Europe/Berlin", "America/New_York", "America/Los_Angeles", "Asia/Tehran")) { zone =>
      Seq(Day, 2 * Day, 7 * Day).foreach(span => assert(largest(zone, span) == Hour, s"over $span"))
    }
  }

  test("a zone that changes by half an hour has at least that") {
    // It had moved by less and by more in its history, none of it by more than that since it counts
    // in hours.
    assert(largest("Australia/Lord_Howe", Day) >= Hour / 2)
  }

  test("a zone that jumped over the date line changed by a day") {
    assert(largest("Pacific/Apia", Day) == Day)
    assert(largest("Pacific/Kwajalein", Day) >= 23 * Hour)
  }

  test("a longer span never has a smaller change") {
    forAll(Table("zone", "Europe/Berlin", "Europe/Moscow", "Pacific/Apia", "Africa/Casablanca")) { zone =>
      val spans = Seq(0L, Hour, Day, 30 * Day, 366 * Day, 3653 * Day)
      val all = spans.map(largest(zone, _))
      assert(all == all.sorted)
    }
  }

  if (SparkTest.isLong) test("no day from 1970 to 2060 is longer or shorter than the largest change allows") {
    forAll(
      Table(
        "zone",
        "Europe/Berlin",
        "America/New_York",
        "Africa/Casablanca",
        "Antarctica/Troll",
        "Pacific/Apia"
      )
    ) { name =>
      val zone = ZoneId.of(name)
      val allowed = ClockChanges.largest(zone, 2 * Day)
      val days = Iterator
        .iterate(Instant.EPOCH)(_.plus(Duration.ofHours(7)))
        .takeWhile(_.isBefore(Instant.parse("2060-01-01T00:00:00Z")))
      val wrong = days.find { start =>
        val end = start.atZone(zone).plusDays(1).toInstant
        math.abs(Duration.between(start, end).toMillis * 1000 - Day) > allowed
      }
      assert(wrong.isEmpty, s"a day of $name")
    }
  }

  test("today's rules apply far into the future") {
    val berlin = ZoneId.of("Europe/Berlin").getRules
    assert(berlin.getOffset(Instant.parse("2090-07-01T00:00:00Z")) == ZoneOffset.ofHours(2))
    assert(largest("Europe/Berlin", Day) == Hour)
  }

  test("the zone of a batch's time may be written in any way that Spark accepts") {
    for (zone <- Seq("America/Los_Angeles", "-08:00", "-8:00", "PST")) {
      val plan = Project(Seq(Alias(BatchTime(TimeType(0), Some(zone)), "now")()), OneRowRelation())
      val now = BatchTime.in(plan, millis = 0).expressions.flatMap(_.children).map(_.eval())
      assert(now == Seq(Duration.ofHours(16).toNanos), zone)
    }
  }
}
