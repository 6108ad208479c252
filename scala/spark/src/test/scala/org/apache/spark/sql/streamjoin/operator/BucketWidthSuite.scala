package org.apache.spark.sql.streamjoin.operator

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.functions.expr
import org.apache.spark.sql.streamjoin.JoinTest

import streamjoin.core.Side

/**
 * A bucket is an eighth of the time for which rows are kept: the bound plus the watermark delay.
 */
class BucketWidthSuite extends AnyFunSuite with JoinTest {
  import JoinTest._

  private val Second = 1000000L

  /** The bucket widths of both sides in microseconds, left first. */
  private def widths(bound: String, delays: (String, String)): Seq[Long] =
    widthsOf(s"d.t BETWEEN o.t AND o.t + INTERVAL $bound", delays)

  private def widthsOf(bounds: String, delays: (String, String)): Seq[Long] = {
    val condition = s"o.id = d.id AND $bounds"
    val query: Streams => org.apache.spark.sql.DataFrame =
      streams => streams.marked("o", delays._1).join(streams.marked("d", delays._2), expr(condition))
    running(job(query)) { job =>
      job.feed(o("a", "10:00", 1), d("a", "10:00", 2))
      val spec = job.joins.head.taskSpec
      Seq(Side.Left, Side.Right).map(spec.sides(_).bucketWidth)
    }
  }

  test("a bucket is an eighth of the bound, but at least 5 seconds") {
    assert(widths("80 SECONDS", "0 seconds" -> "0 seconds") == Seq(10 * Second, 10 * Second))
    assert(widths("8 SECONDS", "0 seconds" -> "0 seconds") == Seq(5 * Second, 5 * Second))
  }

  test("a bucket grows with the larger watermark delay") {
    assert(widths("80 SECONDS", "1 day" -> "1 hour") == Seq.fill(2)((24 * 3600 + 80) * Second / 8))
    assert(widths("80 SECONDS", "0 seconds" -> "1 day") == Seq.fill(2)((24 * 3600 + 80) * Second / 8))
  }

  test("a bucket follows how long rows are kept if that exceeds the width of the bound") {
    val dayLater = "d.t BETWEEN o.t + INTERVAL 24 HOURS AND o.t + INTERVAL '24:01' HOUR TO MINUTE"
    val day = 24 * 3600 * Second
    // Orders wait a day for deliveries; deliveries do not wait for orders.
    assert(widthsOf(dayLater, "0 seconds" -> "0 seconds") == Seq((day + 60 * Second) / 8, 60 * Second / 8))
    val weekLater = "o.t = d.t + INTERVAL 168 HOURS"
    assert(widthsOf(weekLater, "8 seconds" -> "0 seconds") == Seq(5 * Second, (7 * day + 8 * Second) / 8))
  }
}
