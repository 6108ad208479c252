package org.apache.spark.sql.streamjoin.joins.interval

import org.scalatest.Assertion
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.functions.expr
import org.apache.spark.sql.streamjoin.{JoinTest, SqlTest}
import org.apache.spark.sql.types.TimestampType
import org.apache.spark.sql.{AnalysisException, DataFrame, Row}

import streamjoin.core.{JoinType, Side}

/** Bounds by values of rows that `start()` rejects, and in which words. */
class CarriedRejectionsSuite extends AnyFunSuite with SqlTest {
  import CarriedBoundStories.Columns
  import JoinTest._

  private lazy val streams = newStreams(Columns)

  private def joined(condition: String, how: String = "inner"): DataFrame =
    streams.marked("o").join(streams.marked("d"), expr(condition), how)

  private def rewrite(error: AnalysisException): String = error.getMessageParameters.get("rewrite")

  private def carried(condition: String): Seq[Side] =
    joins(joined(condition)).flatMap(_.plan.carried.map(_.side))

  // A bound inside OR.

  private val last = "TIMESTAMP '9999-12-31 00:00:00'"
  private val since = "o.id = d.id AND d.t >= o.t"

  for (
    (or, end) <- Seq(
      "o.until IS NULL OR d.t <= o.until" -> s"d.t <= coalesce(o.until, $last)",
      "d.t < o.until OR o.until IS NULL" -> s"d.t < coalesce(o.until, $last)",
      "NOT (o.until IS NOT NULL AND d.t > o.until)" -> s"d.t <= coalesce(o.until, $last)",
      "o.v = 0 OR d.t <= o.until" -> s"d.t <= (IF((o.v = 0), $last, o.until))",
      "o.until IS NULL OR o.v = 0 OR d.t <= o.until" ->
        s"d.t <= (IF(((o.until IS NULL) OR (o.v = 0)), $last, o.until))",
      "d.t <= o.until OR d.t <= o.t + INTERVAL 1 HOUR" ->
        "d.t <= greatest(o.until, o.t + INTERVAL '01' HOUR)",
      "o.until IS NULL OR d.t - INTERVAL 1 HOUR <= o.until" ->
        s"d.t + INTERVAL '-01' HOUR <= coalesce(o.until, $last)"
    )
  ) test(s"a bound inside OR shows the end to write: $or") {
    val error = rejection(joined(s"$since AND ($or)"))
    assert(error.getCondition == "STREAMJOIN_END_IN_OR", error.getMessage)
    assert(error.getMessageParameters.get("side") == "left")
    assert(rewrite(error) == end)
    assert(carried(s"$since AND ${rewrite(error)}") == Seq(Side.Left))
  }

  test("an OR that only implies an end stays next to it") {
    val or = "(o.until IS NULL AND o.v > d.v) OR (d.t <= o.until AND o.v < d.v)"
    val error = rejection(joined(s"$since AND ($or)"))
    assert(error.getCondition == "STREAMJOIN_END_IN_OR", error.getMessage)
    assert(
      rewrite(error).contains(" OR ") && rewrite(error).endsWith(s" AND d.t <= coalesce(o.until, $last)")
    )
    assert(carried(s"$since AND ${rewrite(error)}") == Seq(Side.Left))
  }

  test("the error has a bound for the other input, too, if that has none") {
    val error = rejection(joined("o.id = d.id AND (o.until IS NULL OR d.t <= o.until)"))
    assert(rewrite(error) == s"d.t <= coalesce(o.until, $last) AND d.t >= o.t - INTERVAL 1 HOUR")
    assert(carried(s"o.id = d.id AND ${rewrite(error)}") == Seq(Side.Left))
    val both = rejection(
      joined("o.id = d.id AND (o.until IS NULL OR d.t <= o.until) AND (d.until IS NULL OR o.t <= d.until)")
    )
    assert(carried(s"o.id = d.id AND ${rewrite(both)}") == Seq(Side.Left))
  }

  for (joinType <- JoinType.all) test(s"${joinType.name}: the end in an OR is shown") {
    val error = rejection(joined(s"$since AND (o.until IS NULL OR d.t <= o.until)", joinType.name))
    assert(error.getCondition == "STREAMJOIN_END_IN_OR")
    assert(error.getMessageParameters.get("type") == joinType.name)
  }

  test("an alternative without a condition on the row gives it no end") {
    val error = rejection(joined(s"$since AND (d.v = 0 OR d.t <= o.until)"))
    assert(error.getCondition == "STREAMJOIN_BOUND_IN_OR")
  }

  test("the error says in the words of the query what happens to an open end") {
    val or = s"$since AND (o.until IS NULL OR d.t <= o.until)"
    val inPython = rejection(joined(or)).getMessage
    assert(inPython.contains("""spark.conf.set("spark.streamjoin.beyondMaxLifetime", "cut")"""), inPython)
    assert(inPython.contains("spark.streamjoin.maxLifetime = 30 days"))
    withConf("spark.streamjoin.maxLifetime" -> "36h") {
      val inSql = rejection(sql(s"SELECT o.id FROM o JOIN d ON $or")(streams)).getMessage
      assert(inSql.contains("run SET spark.streamjoin.beyondMaxLifetime = cut."), inSql)
      assert(inSql.contains("spark.streamjoin.maxLifetime = 1 day 12 hours"))
    }
  }

  test("the rewrite of an OR runs, and a row with an open end matches") {
    val end = rewrite(rejection(joined(s"$since AND (o.until IS NULL OR d.t <= o.until)")))
    def query(streams: Streams) = streams
      .marked("o")
      .join(streams.marked("d"), expr(s"$since AND $end"))
      .selectExpr("o.id")
    def order(id: String, until: String) =
      "o" -> Row(id, at("10:00"), if (until == null) null else at(until), 1)
    def delivery(id: String, time: String) = "d" -> Row(id, at(time), null, 1)
    val rows = Seq(order("a", null), order("b", "10:05"), delivery("a", "10:30"), delivery("b", "10:30"))
    withConf("spark.streamjoin.beyondMaxLifetime" -> "cut", "spark.streamjoin.maxLifetime" -> "1h") {
      running(job(query, Columns)) { job =>
        assert(job.feed(rows: _*) == Seq("a"))
        assert(job.feed(delivery("a", "11:00"), delivery("a", "11:00:00.000001")) == Seq("a"))
        job.feed(delivery("x", "11:01"))
        assert(job.state._1 == 0)
      }
    }
    withConf("spark.streamjoin.beyondMaxLifetime" -> "keep") {
      running(job(query, Columns)) { job =>
        assert(job.feed(rows: _*) == Seq("a"))
        job.feed(delivery("x", "2024-09-01T00:00"))
        assert(job.feed(delivery("a", "2024-09-01T00:00")) == Seq("a"))
      }
    }
  }

  // Values that may differ, or that cannot be computed for a row alone.

  private def rejects(condition: String, reason: String): Assertion = {
    val error = rejection(joined(condition))
    assert(error.getCondition == "STREAMJOIN_BOUND_NOT_CONSTANT", error.getMessage)
    assert(error.getMessageParameters.get("reason").endsWith(reason), error.getMessage)
    assert(joins(joined(s"$condition AND ${rewrite(error)}")).size == 1)
  }

  test("a value that differs from batch to batch is rejected") {
    for (now <- Seq("current_timestamp()", "now()", "localtimestamp()", "current_date()"))
      rejects(s"$since AND d.t <= greatest(o.until, CAST($now AS TIMESTAMP))", "differs from batch to batch")
  }

  test("a value computed by a Python function is rejected") {
    createPythonFunction(TimestampType)
    rejects(s"$since AND d.t <= python_function(o.until)", "is computed by a Python function")
    rejects(s"$since AND d.t <= greatest(o.t, python_function(o.until))", "is computed by a Python function")
  }

  test("a value with a subquery is rejected") {
    spark.range(1).createOrReplaceTempView("one")
    rejects(
      s"$since AND d.t <= o.until + (SELECT max(id) FROM one) * INTERVAL 1 MINUTE",
      "has a subquery"
    )
  }

  // Bounds in the other direction.

  private val within = "o.id = d.id AND d.t <= o.t + INTERVAL 1 HOUR"

  for (
    (condition, error) <- Seq(
      s"$within AND d.t >= o.until" -> "STREAMJOIN_NO_WATERMARK",
      s"$within AND d.t > o.until - INTERVAL 1 HOUR" -> "STREAMJOIN_NO_WATERMARK",
      s"$within AND d.t >= o.t + o.v * INTERVAL 1 MINUTE" -> "STREAMJOIN_BOUND_NOT_CONSTANT",
      s"$within AND d.t >= least(o.until, o.t)" -> "STREAMJOIN_BOUND_NOT_CONSTANT",
      s"$within AND d.t >= coalesce(o.until, o.t)" -> "STREAMJOIN_BOUND_NOT_CONSTANT",
      "o.id = d.id AND d.t <= o.until" -> "STREAMJOIN_UNBOUNDED"
    )
  ) test(s"a value lets no row of the other input leave: $condition") {
    val rejected = rejection(joined(condition))
    assert(rejected.getCondition == error, rejected.getMessage)
    // The side of the column that would need a watermark, or of the rows that would stay.
    val side = if (error == "STREAMJOIN_NO_WATERMARK") "left" else "right"
    assert(rejected.getMessageParameters.get("side") == side)
    // Next to a bound that counts, it is an ordinary condition.
    val bounded = joins(joined(s"$condition AND d.t >= o.t - INTERVAL 1 HOUR")).head.plan
    assert(bounded.bounds.bounded(Side.Right) == bounded.keys(Side.Right))
    assert(bounded.found.count(_.side == Side.Right) == 1)
  }

  test("a comparison of values alone bounds nothing") {
    for (
      condition <- Seq(
        "o.id = d.id AND d.t >= o.until",
        "o.id = d.id AND o.until >= d.until AND d.t >= o.t"
      )
    ) {
      val error = rejection(joined(condition))
      assert(Seq("STREAMJOIN_UNBOUNDED", "STREAMJOIN_NO_WATERMARK").contains(error.getCondition), condition)
      assert(error.getMessageParameters.get("side") == "left", condition)
    }
  }

  test("an earlier row that a later one may still match never leaves") {
    val error = rejection(joined("o.id = d.id AND o.t <= d.t AND d.t <= d.until"))
    assert(error.getCondition == "STREAMJOIN_UNBOUNDED")
    assert(error.getMessageParameters.get("side") == "left")
  }

  // What an unbounded join may write.

  test("the end of a row is proposed for an unbounded join if a column may be one") {
    for (
      (condition, bound) <- Seq(
        "o.id = d.id" -> "d.t BETWEEN o.t AND o.until",
        since -> "d.t <= o.until",
        within -> "o.t <= d.until"
      )
    ) {
      val error = rejection(joined(condition))
      assert(error.getCondition == "STREAMJOIN_UNBOUNDED")
      assert(error.getMessage.contains(s"\nor by an end that each row carries,\n$bound,\n"), error.getMessage)
      assert(carried(s"$condition AND $bound").size == 1)
    }
  }

  test("no end is proposed where there is none, or where it is a beginning") {
    val plain = newStreams()
    val without = plain.marked("o").join(plain.marked("d"), expr(since))
    for (rejected <- Seq(without, joined(s"$since AND o.until <= d.t")))
      assert(!rejection(rejected).getMessage.contains("carries"))
  }

  test("a distance that varies by row is proposed as an end") {
    for ((sign, row) <- Seq("<=" -> "o.v", "<" -> "(o.v + 1)")) {
      val condition = s"$since AND d.t - o.t $sign $row * INTERVAL 1 MINUTE"
      val error = rejection(joined(condition))
      assert(error.getCondition == "STREAMJOIN_BOUND_NOT_CONSTANT")
      val bound = s"d.t $sign o.t + (INTERVAL '01' MINUTE * $row)"
      assert(error.getMessage.contains(s"Write, in place of it,\n$bound,\n"), error.getMessage)
      assert(carried(s"$since AND $bound") == Seq(Side.Left))
      assert(joins(joined(s"$condition AND ${rewrite(error)}")).size == 1)
    }
  }

  test("a value in a time whose watermark was lost below is rejected") {
    val both = joined(s"$since AND d.t <= o.until", "left_outer")
      .selectExpr("o.id AS id", "o.t AS t", "d.t AS delivered")
      .as("f")
    withConf("spark.streamjoin.beyondMaxLifetime" -> "keep") {
      spark.withActive {
        val error = rejection(
          both.join(
            streams.marked("e"),
            expr("f.id = e.id AND e.t <= f.t + INTERVAL 1 HOUR AND f.t <= e.until")
          )
        )
        assert(error.getCondition == "STREAMJOIN_WATERMARK_UNDEFINED", error.getMessage)
      }
    }
  }
}
