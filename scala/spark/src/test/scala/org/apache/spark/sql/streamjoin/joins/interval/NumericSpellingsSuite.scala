package org.apache.spark.sql.streamjoin.joins.interval

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.functions._
import org.apache.spark.sql.streamjoin.JoinTest

import streamjoin.core.Side

/** Bounds between event times that are written as numbers: seconds, milliseconds, microseconds. */
class NumericSpellingsSuite extends AnyFunSuite with SpellingsTest {
  import JoinTest._

  test("a bound can compare times as seconds, milliseconds or microseconds") {
    // A number is the time rounded down: each of the two may be up to a second below its time.
    val rounding = Second - 1
    for (
      second <- Seq("CAST(%s AS BIGINT)", "unix_seconds(%s)", "CAST(CAST(%s AS BIGINT) AS DECIMAL(20, 0))")
    ) {
      val (o, d) = (second.format("o.t"), second.format("d.t"))
      val more = if (second.contains("DECIMAL")) 2 * (Second + 32) else 0L
      def on(condition: String, left: Long, right: Long): Unit = {
        val found = kept(orders.join(deliveries, expr(s"o.id = d.id AND $condition")))
        assert(found(Side.Left) - left >= 0, condition)
        assert(found(Side.Left) - left <= 2 * more, condition)
        assert(found(Side.Right) - right >= 0, condition)
        assert(found(Side.Right) - right <= 2 * more, condition)
      }
      on(s"$d BETWEEN $o AND $o + 5", 5 * Second + rounding, rounding)
      on(s"$d BETWEEN $o - 3 AND $o", rounding, 3 * Second + rounding)
      on(s"$d >= $o AND $d < $o + 5", 5 * Second + rounding - 1, rounding)
      on(s"$d - $o BETWEEN 0 AND 5", 5 * Second + rounding, rounding)
    }
    on("unix_micros(d.t) - unix_micros(o.t) BETWEEN -7 AND 5", 5, 7)
    on("unix_millis(d.t) BETWEEN unix_millis(o.t) AND unix_millis(o.t) + 5", 5999, 999)
    on(
      "unix_timestamp(d.t) BETWEEN unix_timestamp(o.t) AND unix_timestamp(o.t) + 5",
      5 * Second + 2 * rounding,
      2 * rounding
    )
    on(
      "to_unix_timestamp(d.t) BETWEEN to_unix_timestamp(o.t) AND 5 + to_unix_timestamp(o.t)",
      5 * Second + 2 * rounding,
      2 * rounding
    )
    val exact = kept(
      orders.join(
        deliveries,
        expr(
          "o.id = d.id AND CAST(d.t AS DOUBLE) BETWEEN CAST(o.t AS DOUBLE) - 0.5 AND CAST(o.t AS DOUBLE) + 1.5"
        )
      )
    )
    assert(exact(Side.Left) >= 1500000)
    assert(exact(Side.Left) < 1501000)
    assert(exact(Side.Right) >= 500000)
    assert(exact(Side.Right) < 501000)
  }

  test("an absolute difference bounds both sides") {
    val rounding = Second - 1
    def both(condition: String, micros: Long): Unit = on(condition, micros, micros)
    both("abs(CAST(d.t AS LONG) - CAST(o.t AS LONG)) <= 3600", Hour + rounding)
    both("3600 > abs(CAST(d.t AS LONG) - CAST(o.t AS LONG))", Hour + rounding - 1)
    both("abs(unix_timestamp(o.t) - unix_timestamp(d.t)) <= 3600", Hour + 2 * rounding)
    both("abs(unix_seconds(o.t) - unix_seconds(d.t)) BETWEEN 0 AND 3600", Hour + rounding)
    both("abs(unix_micros(d.t) - unix_micros(o.t)) <= 5", 5)
    both("abs(unix_millis(d.t) - unix_millis(o.t)) = 5", 5999)
    both("abs(d.t - o.t) <= INTERVAL 1 HOUR", Hour)
    both("unix_timestamp(d.t) - unix_timestamp(o.t) BETWEEN -60 AND 60", Minute + 2 * rounding)
    // As Python users write it.
    val found = kept(
      orders.join(
        deliveries,
        col("o.id") === col("d.id") && abs(col("d.t").cast("long") - col("o.t").cast("long")) <= 3600.0
      )
    )
    assert(found.values.forall(micros => micros >= Hour + rounding && micros < Hour + 2 * Second))
    // It says nothing from above.
    val rejected = rejection(
      orders.join(deliveries, expr("o.id = d.id AND abs(unix_micros(d.t) - unix_micros(o.t)) >= 5"))
    )
    assert(rejected.getCondition == "STREAMJOIN_BOUND_NOT_CONSTANT")
  }

  test("an absolute difference that equals a constant bounds both sides and is applied as written") {
    for (
      equal <- Seq(
        "abs(unix_micros(d.t) - unix_micros(o.t)) = 300000000",
        "INTERVAL 5 MINUTES <=> abs(d.t - o.t)"
      )
    )
      running(job(hourly("left_semi", s"o.id = d.id AND $equal")(_).selectExpr("o.v"))) { job =>
        job.feed(o("a", "10:00", 1), o("a", "10:10", 2), o("a", "10:04", 3))
        assert(job.feed(d("a", "10:05")) == Seq("1", "2"), equal)
      }
  }

  test("timestampdiff and datediff bound the join") {
    // A number of whole units, rounded towards zero.
    on("timestampdiff(MINUTE, o.t, d.t) BETWEEN 0 AND 60", Hour + Minute - 1, Minute - 1)
    on("timestampdiff(minute, d.t, o.t) BETWEEN -60 AND 0", Hour + Minute - 1, Minute - 1)
    on("abs(timestampdiff(HOUR, o.t, d.t)) < 2", 3 * Hour - 2, 3 * Hour - 2)
    on("timestampdiff(MICROSECOND, o.t, d.t) BETWEEN 1 AND 7", 7, -1)
    on("datediff(DAY, o.t, d.t) BETWEEN 0 AND 1", 2 * Day - 1, Day - 1)
    on("datediff(d.t, o.t) BETWEEN 0 AND 1", 2 * Day - 1 + Day - 1, 2 * (Day - 1))
    for (condition <- Seq("timestampdiff(MONTH, o.t, d.t) = 0", "timestampdiff(MINUTE, o.t, d.t) <= o.v"))
      rejection(orders.join(deliveries, expr(s"o.id = d.id AND o.t <= d.t AND $condition"))): Unit
  }

  test("numbers that do not bound the times are rejected") {
    for (
      condition <- Seq(
        "CAST(d.t AS BIGINT) BETWEEN unix_millis(o.t) AND unix_millis(o.t) + 5",
        "CAST(d.t AS BIGINT) BETWEEN CAST(o.t AS BIGINT) AND CAST(o.t AS BIGINT) + o.v",
        "CAST(d.t AS BIGINT) BETWEEN CAST(o.t AS BIGINT) AND CAST(o.t AS BIGINT) * 2",
        "o.v BETWEEN d.v AND d.v + 5"
      )
    ) {
      val rejected = rejection(orders.join(deliveries, expr(s"o.id = d.id AND $condition")))
      assert(Set("STREAMJOIN_BOUND_NOT_CONSTANT", "STREAMJOIN_UNBOUNDED")(rejected.getCondition), condition)
    }
  }

  test("rows are kept as long as rounded seconds can match") {
    running(
      job(
        hourly(
          "left_outer",
          "o.id = d.id AND CAST(d.t AS BIGINT) BETWEEN CAST(o.t AS BIGINT) AND CAST(o.t AS BIGINT) + 5"
        )(
          _
        ).selectExpr("o.v", "d.v")
      )
    ) { job =>
      job.feed(o("a", "10:00:00", 1), d("z", "10:00:00"))
      // The order can still match a delivery of the sixth second.
      job.feed(d("z", "10:00:05.999"), o("z", "10:00:00"))
      assert(job.feed(d("a", "10:00:05.999999", 2)) == Seq("1 2"))
      assert(job.feed(d("a", "10:00:06", 3)).forall(!_.startsWith("1")))
    }
  }
}
