package org.apache.spark.sql.streamjoin.joins.temporal

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.execution.SortExec
import org.apache.spark.sql.functions._
import org.apache.spark.sql.streamjoin.{Frames, JoinTest}

/** The order in which a temporal join emits rows, and what it costs. */
class TemporalOrderSuite extends AnyFunSuite with TemporalTest {
  import JoinTest._

  private def sorts(job: Job): Seq[Int] = job.plan.collect { case sort: SortExec =>
    sort.child.outputPartitioning.numPartitions
  }

  test("rows that waited for the first watermark are sorted by all tasks, also if the batch runs again") {
    running(job(values(temporal()))) { job =>
      val facts = (0 until 60).map(minute => o("a", f"10:$minute%02d", minute))
      // W(o) = 10:59, W(d) = 12:00: all rows but the last are emitted.
      job.feed(facts :+ d("a", "10:30", 1) :+ d("b", "12:00", 2): _*)
      assert(job.seen.last.rows.size == 59)
      assert(sorts(job) == Seq(2))
      job.redoLast()
      assert(job.seen.last == job.seen.init.last)
      assert(sorts(job) == Seq(2))
      assert(job.seen.last.rows.map(_.takeWhile(_ != ' ').toInt) == (0 until 59))
    }
  }

  test("with ordered=false there is no shuffle above the join, and the rows are the same") {
    def closest(streams: Streams): DataFrame = Frames.closest(
      streams.marked("o").join(streams.marked("d"), expr("o.id = d.id"), "left_outer"),
      "t",
      "t",
      "backward",
      allowsExact = true,
      None,
      ordered = false
    )
    val queries = Seq[Streams => DataFrame](temporal(ordered = false), closest)
    for (query <- queries) running(job(values(query))) { job =>
      job.feed(
        (0 until 20).map(at => o(s"k${at % 5}", f"10:$at%02d", at)) ++ (0 until 5).map(at =>
          d(s"k$at", "10:07", at)
        ): _*
      )
      job.feed(end("11:00"): _*)
      val expected = (0 until 20).map(at => s"$at ${if (at < 7) "-" else at % 5}")
      assert(job.seen.flatMap(_.rows).toSet == expected.toSet)
      assert(sorts(job).isEmpty)
    }
  }

  test("with order=, columns of the versions that nothing reads are not kept") {
    def log(order: Option[String])(streams: Streams): DataFrame = {
      val log =
        versions(streams.marked("d")).selectExpr("*", "v + 0 AS place", "repeat(id, 9) AS wide").as("d")
      val joined = streams.marked("o").join(log, expr("o.id = d.id"), "left_outer")
      Frames.temporal(joined, op = Some("op"), order = order).selectExpr("o.v", "d.place")
    }
    for ((order, isKept) <- Seq(Some("place") -> false, None -> true)) running(job(log(order))) { job =>
      job.feed(d("a", "10:00", 1), o("a", "10:00", 2))
      val right = job.plan.collectFirst { case join: TemporalJoinExec => join.right.output.map(_.name) }.get
      assert(right.contains("wide") == isKept, right)
    }
  }
}
