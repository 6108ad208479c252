package org.apache.spark.sql.streamjoin

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.functions.expr

/** Window joins: what comes out when, and in which order. */
class WindowJoinSuite extends AnyFunSuite with JoinTest {
  import JoinTest._

  private val TenMinutes = 10L * 60 * 1000000

  private def window(how: String, side: String, following: Boolean)(streams: Streams): DataFrame =
    PythonApi
      .windowJoin(
        streams.marked("o").join(streams.marked("d"), expr("o.id = d.id"), how),
        side,
        TenMinutes,
        following
      )
      .selectExpr("rowtime", "o.id", "o.v", "d.v")

  /** A row that only says how far its stream is. */
  private def bound(stream: String, time: String) = stream -> row(s"$stream-bound", time, -1)

  test("the first query of the document: orders and the trades that follow") {
    running(job(window("inner", "right", following = true))) { job =>
      assert(job.feed(o("1", "10:00", 100), o("2", "10:03", 25)) == Nil)
      assert(
        job.feed(d("1", "10:02", 60), d("2", "10:04", 25), d("1", "10:07:30", 30)) == Seq(
          "10:00 1 100 30",
          "10:00 1 100 60"
        )
      )
      assert(job.feed(bound("d", "10:11")) == Seq("10:03 2 25 25"))
      assert(job.feed(bound("o", "10:10")) == Nil)
      assert(job.feed(d("1", "10:12", 10)) == Nil)
    }
  }
}
