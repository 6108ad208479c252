package org.apache.spark.sql.streamjoin.observe.read

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.streamjoin.JoinTest
import org.apache.spark.sql.{AnalysisException, DataFrame, Row}

/** What a running query keeps, which input holds back which, and what stands out. */
class ExplainAnalyzeSuite extends AnyFunSuite with JoinTest {
  import JoinTest._

  private def explained(job: Job, skew: Boolean = false): DataFrame =
    spark.sql(s"SELECT * FROM sj_explain_analyze('${job.streaming.id}', $skew)")

  private def rows(table: DataFrame, columns: String*): Seq[String] =
    table.selectExpr(columns: _*).collect().map(text(_: Row)).toSeq

  test("an indented plan of the operators and their inputs") {
    running(job(ofThree("left_outer"))) { job =>
      assert(explained(job).collect().isEmpty, "before the first batch")
      job.feed(o("a", "10:00", 1), o("b", "10:20", 2), d("a", "10:30", 3), "e" -> row("a", "10:40"))
      assert(
        rows(explained(job), "plan") == Seq(
          "2 inner interval join",
          "  left: o",
          "    1 left outer interval join",
          "      left: o",
          "      right: d",
          "  right: e"
        )
      )
      // In the batches so far 4 rows have come; a pair and later its like wait above.
      assert(
        rows(explained(job).where("operator = 1"), "rows_in", "rows_kept", "late", "padded") ==
          Seq("3 3 0 0", "2 2 0 -", "1 1 0 -")
      )
      // Those of the operator may speak of a slow machine.
      assert(rows(explained(job).where("side IS NOT NULL"), "size(hints)").toSet == Set("0"))
      assert(
        rows(
          explained(job).where("operator = 1 AND side = 'left'"),
          "watermarks[0].column",
          "watermarks[0].watermark",
          "watermarks[0].held_by",
          "oldest",
          "leaves_by",
          "leaves_after"
        ) == Seq("o.t 2024-06-01T10:20:00Z o 2024-06-01T10:00:00Z d.t 2024-06-01T11:00:00Z")
      )
      // Above the join, o waits for d: W(o) there is that of d minus an hour.
      assert(
        rows(explained(job).where("operator = 2 AND side = 'left'"), "watermarks[0].held_by") == Seq("d")
      )
      assert(
        explained(job)
          .where("operator = 1 AND side IS NULL")
          .selectExpr("ms['commit'] >= 0")
          .head()
          .getBoolean(0)
      )
    }
  }

  test("a query that has stopped, as it was at its end") {
    val id = running(job(hourly())) { job =>
      job.feed(o("a", "10:00", 1), d("a", "10:30", 3))
      val id = job.streaming.id.toString
      val before = rows(spark.sql(s"SELECT * FROM sj_explain_analyze('$id', true)"), "plan", "rows_kept")
      job.stop()
      assert(rows(spark.sql(s"SELECT * FROM sj_explain_analyze('$id', true)"), "plan", "rows_kept") == before)
      id
    }
    assert(spark.sql(s"SELECT * FROM sj_explain_analyze('$id')").count() == 3)
    val before = running(job(hourly()))(_.streaming.id)
    assert(spark.sql(s"SELECT * FROM sj_explain_analyze('$before')").count() == 0, "it has had no batch")
  }

  test("with skew, each task has its ratio to the average") {
    running(job(hourly())) { job =>
      job.feed((0 until 9).map(n => o("one key", "10:00", n)): _*)
      val tasks = explained(job, skew = true).where("task IS NOT NULL")
      assert(rows(tasks, "rows_kept", "rows_ratio").sorted == Seq("0 0.0", "9 2.0"))
      assert(rows(explained(job, skew = true).where("task IS NULL"), "plan").size == 3)
    }
  }

  test("a hot key is named where it is asked for, and hinted at without its name") {
    running(job(hourly())) { job =>
      val many = (0 until 2000).map(n => o(if (n % 2 == 0) "gold" else s"$n", f"10:${n % 60}%02d", n))
      job.feed(many: _*)
      job.feed((0 until 1000).map(n => d(s"$n", "10:00", n)): _*)
      assert(
        rows(explained(job, skew = true).where("side = 'right'"), "size(hot_keys)") == Seq("0"),
        "each key once"
      )
      val left = "side = 'left'"
      assert(
        rows(
          explained(job, skew = true).where(left),
          "hot_keys[0].key",
          "round(hot_keys[0].share, 1)",
          "size(hot_keys)"
        ) == Seq("gold 0.5 1")
      )
      assert(rows(explained(job).where(left), "hot_keys") == Seq("-"))
      val hint = rows(explained(job).where(left), "hints[0]").head
      assert(hint.matches("One key has [45].? % of the rows of o,.*"))
      assert(!hint.contains("gold"))
    }
  }

  test("a bound that is far wider than the matches need is named, with a narrower one") {
    running(job(hourly())) { job =>
      val many = (0 until 1200).flatMap(n => Seq(o(s"$n", "10:00", n), d(s"$n", f"10:0${n % 5}", n)))
      job.feed(many: _*)
      val hint = rows(
        explained(job).where("operator = 1 AND side IS NULL"),
        "filter(hints, hint -> hint LIKE '99.9%')[0]"
      ).head
      assert(hint.startsWith("99.9 % of the matches are within 4 minutes, and rows are kept for 1 hour."))
      assert(hint.contains("d.t <= o.t + INTERVAL '2"))
    }
  }

  test("a row from the far future is named, with what to write") {
    running(job(hourly())) { job =>
      job.feed(o("a", "10:00", 1))
      job.feed(o("b", "2999-01-01T00:00", 1))
      val hint = rows(explained(job).where("side = 'left'"), "hints[0]").head
      assert(hint.contains("The newest o.t is 2999-01-01T00:00:00Z"))
      assert(
        hint.contains(
          ".where(\"t < current_timestamp() + INTERVAL 1 HOUR\"), and start with a new checkpoint"
        )
      )
    }
  }

  test("a time that no calendar of a client has is text") {
    running(job(hourly())) { job =>
      job.feed(o("a", "+58874-07-11T16:00:00.5", 1), d("a", "10:00", 1))
      val found = explained(job).where("side = 'left'")
      assert(
        rows(found, "oldest", "leaves_after", "watermarks[0].watermark") ==
          Seq("+58874-07-11T16:00:00.5Z +58874-07-11T17:00:00.5Z +58874-07-11T16:00:00.5Z")
      )
      // Text that Spark reads again.
      assert(
        found
          .where("CAST(leaves_after AS TIMESTAMP) - CAST(oldest AS TIMESTAMP) = INTERVAL 1 HOUR")
          .count() == 1
      )
    }
  }

  test("a query that does not run, and other arguments, are rejected") {
    def rejected(call: String) = intercept[AnalysisException](spark.sql(s"SELECT * FROM $call")).getMessage
    assert(
      rejected("sj_explain_analyze('nobody')").contains(
        "finds no query nobody that runs or has just stopped; none runs"
      )
    )
    assert(rejected("sj_explain_analyze(1)").contains("the id or the name of a query"))
    assert(rejected("sj_explain_analyze()").contains("the id or the name of a query"))
  }
}
