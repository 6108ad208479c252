package org.apache.spark.sql.streamjoin.joins.interval

import org.scalatest.Assertion
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.functions.expr
import org.apache.spark.sql.streamjoin.JoinTest

/** What `start()` rejects, and in which words. */
class RejectionsSuite extends AnyFunSuite with JoinTest {
  import JoinTest._

  private lazy val streams = newStreams()

  private def join(
      condition: String,
      how: String = "inner",
      right: Streams => DataFrame = _.marked("d")
  ): DataFrame =
    streams.marked("o").join(right(streams), expr(condition), how)

  private case class Case(condition: String, errorClass: String, side: String, words: Seq[String] = Nil)

  private val hour = "o.t + INTERVAL 1 HOUR"
  private val unbounded = "STREAMJOIN_UNBOUNDED"
  private val inOr = "STREAMJOIN_BOUND_IN_OR"
  private val varies = "STREAMJOIN_BOUND_NOT_CONSTANT"

  private val cases = Seq(
    Case("o.id = d.id", unbounded, "left", Seq("o.id = d.id", "left.time >= right.time")),
    Case("o.id = d.id AND o.v < d.v", unbounded, "left"),
    Case(s"o.id = d.id AND d.t <= $hour", unbounded, "right", Seq("\nd.t >= o.t - INTERVAL 1 HOUR\n")),
    Case("o.id = d.id AND d.t >= o.t", unbounded, "left", Seq("\no.t >= d.t - INTERVAL 1 HOUR\n")),
    Case("o.id = d.id AND o.t <> d.t", unbounded, "left"),
    Case("o.id = d.id AND d.t > TIMESTAMP '2024-01-01' AND o.t > TIMESTAMP '2024-01-01'", unbounded, "left"),
    Case(
      s"o.id = d.id AND (d.t BETWEEN o.t AND $hour OR o.v = 1)",
      inOr,
      "left",
      Seq("(o.v = 1)", "OR", "o.t >= d.t", "INTERVAL")
    ),
    Case(
      s"o.id = d.id AND (d.t BETWEEN o.t AND $hour OR d.t BETWEEN o.t AND o.t + INTERVAL 1 DAY)",
      inOr,
      "left"
    ),
    Case("o.id = d.id AND (d.t > o.t AND d.t < o.t + INTERVAL 3 MICROSECONDS OR d.t = o.t)", inOr, "left"),
    Case("o.id = d.id AND (d.t BETWEEN o.t AND o.t + INTERVAL 200 DAYS OR d.v = 2)", inOr, "left"),
    Case("o.id = d.id AND (d.t > o.t OR d.v = 2) AND d.t <= o.t + INTERVAL 1 HOUR", inOr, "right"),
    Case(s"o.id = d.id AND (d.t <= $hour OR d.v = 2)", inOr, "left"),
    Case(s"o.id = d.id AND NOT (d.t > $hour AND d.v = 2) AND NOT (d.t < o.t AND o.v = 2)", inOr, "left"),
    Case(
      "o.id = d.id AND d.t BETWEEN o.t AND o.t + INTERVAL 1 MONTH",
      varies,
      "left",
      Seq("INTERVAL '1' MONTH", "months or years", "AND o.t >= d.t - INTERVAL 31 DAYS")
    ),
    Case(
      "o.id = d.id AND d.t BETWEEN o.t AND o.t + INTERVAL 1 YEAR",
      varies,
      "left",
      Seq("months or years", "INTERVAL 372 DAYS")
    ),
    Case(
      "o.id = d.id AND d.t BETWEEN o.t - INTERVAL 1 MONTH AND o.t",
      varies,
      "right",
      Seq("months or years")
    ),
    Case("o.id = d.id AND d.t BETWEEN o.t AND timestampadd(MONTH, 1, o.t)", varies, "left"),
    Case("o.id = d.id AND d.t BETWEEN o.t AND o.t + make_interval(0, 1)", varies, "left"),
    Case("o.id = d.id AND d.t BETWEEN o.t AND o.t + make_interval(0, 0, 0, 0, d.v)", varies, "left"),
    Case(
      "o.id = d.id AND d.t >= o.t AND d.t - o.t <= o.v * INTERVAL 1 MINUTE",
      varies,
      "left",
      Seq("varies")
    ),
    Case("o.id = d.id AND d.t >= o.t AND d.t <= o.t + (d.t - o.t) * 2", varies, "left"),
    Case(
      "o.id = d.id AND d.t >= o.t AND date_trunc('QUARTER', d.t) = date_trunc('QUARTER', o.t)",
      varies,
      "left",
      Seq("INTERVAL 93 DAYS")
    ),
    Case(
      "o.id = d.id AND unix_timestamp(d.t) BETWEEN unix_timestamp(o.t) AND unix_timestamp(o.t) + o.v",
      varies,
      "left"
    ),
    Case("o.id = d.id AND d.t >= o.t AND d.t <= o.t + (o.t - d.t)", unbounded, "left")
  )

  for (rejected <- cases) test(s"${rejected.errorClass}: ${rejected.condition}") {
    val frame = join(rejected.condition)
    val error = rejection(frame)
    assert(error.getCondition == rejected.errorClass, error.getMessage)
    assert(error.getSqlState == "0A000")
    val message = error.getMessage
    assert(message.startsWith(s"[${rejected.errorClass}]"))
    assert(message.endsWith("SQLSTATE: 0A000"))
    assert(!message.matches("(?s).*<(\\w+)>.*".r.regex), message)
    assert(!message.matches("(?s).*#\\d.*"), s"Spark's expression ids: $message")
    rejected.words.foreach(word => assert(message.contains(word)))
    assert(error.getMessageParameters.get("side") == rejected.side)
    assert(message.contains("left o.t, right d.t"), "columns with a watermark, as the user names them")
    val rewrite = error.getMessageParameters.get("rewrite")
    assert(
      joins(join(s"${rejected.condition} AND $rewrite")).size == 1,
      s"the advice does not help: $rewrite"
    )
  }

  test("a join without any condition is rejected") {
    for (frame <- Seq(join("true"), streams.marked("o").crossJoin(streams.marked("d")))) {
      val error = rejection(frame)
      assert(error.getCondition == unbounded)
      assert(error.getMessage.contains("no condition"))
      assert(error.getMessage.contains("left left.t, right right.t"))
    }
  }

  for (how <- Seq("left_outer", "right_outer", "full_outer", "left_semi", "left_anti"))
    test(s"$how: the extension rejects it before Spark does") {
      val none = rejection(join("o.id = d.id", how))
      assert(none.getCondition == "STREAMJOIN_UNBOUNDED")
      assert(none.getMessage.contains(s"The $how join"))
      val or = rejection(join(s"o.id = d.id AND (d.t BETWEEN o.t AND $hour OR o.v = 1)", how))
      assert(or.getCondition == "STREAMJOIN_BOUND_IN_OR")
    }

  // Columns without a watermark.

  test("a side without a watermark is rejected, and told which withWatermark to add") {
    for (
      (side, left, right) <- Seq(
        ("right", "marked", "raw"),
        ("left", "raw", "marked"),
        ("left", "raw", "raw")
      )
    ) {
      def input(kind: String, name: String) =
        if (kind == "raw") streams.raw(name).as(name) else streams.marked(name)
      def over(l: DataFrame, r: DataFrame) = l.join(r, expr(Hourly))
      val error = rejection(over(input(left, "o"), input(right, "d")))
      assert(error.getCondition == "STREAMJOIN_NO_WATERMARK", error.getMessage)
      assert(error.getMessageParameters.get("side") == side)
      val name = if (side == "left") "o" else "d"
      assert(error.getMessageParameters.get("column") == s"$name.t")
      assert(error.getMessageParameters.get("rewrite") == s"""$name.withWatermark("t", "10 seconds")""")
      assert(error.getMessage.contains(s"left ${if (left == "raw") "none" else "o.t"}"))
      assert(error.getMessage.contains(s"right ${if (right == "raw") "none" else "d.t"}"))
      def marked(kind: String, name: String) =
        if (kind == "raw") streams.raw(name).withWatermark("t", "10 seconds").as(name)
        else streams.marked(name)
      assert(joins(over(marked(left, "o"), marked(right, "d"))).size == 1)
    }
  }

  test("a bound on a column other than the one with the watermark is rejected") {
    val other = streams
      .marked("d")
      .withColumn("at", expr("CAST('2024-01-01' AS TIMESTAMP) + v * INTERVAL 1 DAY"))
      .as("d")
    val error = rejection(
      streams.marked("o").join(other, expr("o.id = d.id AND d.at BETWEEN o.t AND o.t + INTERVAL 1 HOUR"))
    )
    assert(error.getCondition == "STREAMJOIN_NO_WATERMARK")
    assert(error.getMessage.contains("d.at"))
    // Next to a bound that counts, it is an ordinary condition.
    assert(joins(streams.marked("o").join(other, expr(s"$Hourly AND d.at >= o.t"))).size == 1)
  }

  test("a column that lost its watermark in a join: the advice is a bound, not withWatermark") {
    val both = streams
      .marked("o")
      .join(streams.marked("d"), expr(Hourly), "full_outer")
      .selectExpr("coalesce(o.id, d.id) AS id", "coalesce(o.t, d.t) AS t", "o.t AS ordered")
      .as("f")
    val error =
      rejection(
        both.join(streams.marked("e"), expr("f.id = e.id AND e.t BETWEEN f.t AND f.t + INTERVAL 1 HOUR"))
      )
    assert(error.getCondition == "STREAMJOIN_NO_WATERMARK")
    val rewrite = error.getMessageParameters.get("rewrite")
    assert(rewrite == "e.t BETWEEN f.ordered - INTERVAL 1 HOUR AND f.ordered + INTERVAL 1 HOUR")
    assert(joins(both.join(streams.marked("e"), expr(s"f.id = e.id AND $rewrite"))).size == 2)
  }

  test("a watermark on a window column is rejected, as Spark reads no times from it") {
    def windows(name: String) =
      streams
        .raw(name)
        .withColumn("w", expr("window(t, '10 minutes')"))
        .withWatermark("w", "0 seconds")
        .as(name)
    val error = rejection(windows("o").join(windows("d"), expr("o.id = d.id AND o.w = d.w")))
    assert(error.getCondition == "STREAMJOIN_NO_WATERMARK")
    assert(error.getMessage.contains("before window(...)"))
  }

  test("a state encoding other than Spark's rows is rejected") {
    withConf("spark.sql.streaming.stateStore.encodingFormat" -> "avro") {
      assert(rejection(join(Hourly)).getCondition == "STREAMJOIN_STATE_ENCODING")
    }
    withConf("spark.sql.streaming.stateStore.encodingFormat" -> "unsaferow") {
      assert(joins(join(Hourly)).size == 1)
    }
  }

  test("a union is rejected if only one branch has a watermark") {
    val union = streams.raw("d").union(streams.raw("e").withWatermark("t", "0 seconds")).as("d")
    val error = rejection(streams.marked("o").join(union, expr(Hourly)))
    assert(error.getCondition == "STREAMJOIN_NO_WATERMARK")
  }

  private def checkMode(how: String, mode: String, query: DataFrame => DataFrame = identity): Assertion = {
    val error = rejection(query(join(Hourly, how)), mode)
    assert(error.getCondition == "STREAMJOIN_OUTPUT_MODE")
    assert(error.getSqlState == "0A000")
    assert(error.getMessage.contains(mode))
    assert(error.getMessage.contains("append"))
  }

  test("update mode is rejected except for inner and left semi joins, complete mode always") {
    for (how <- Seq("left_outer", "right_outer", "full_outer", "left_anti")) checkMode(how, "update")
    for (how <- Seq("inner", "left_semi", "left_outer")) checkMode(how, "complete")
    checkMode("inner", "complete", _.groupBy("o.id").count())
  }

  test("an aggregation below a join in update mode is rejected in Spark's words") {
    val counts = streams.marked("o").groupBy(expr("window(o.t, '10 minutes') AS w"), expr("o.id")).count()
    val frame = counts
      .selectExpr("id", "w", "count")
      .as("f")
      .join(
        streams.marked("d").selectExpr("id", "window(t, '10 minutes') AS w").as("d"),
        expr("f.id = d.id AND f.w = d.w")
      )
    assert(rejection(frame, "update").getMessage.contains("global watermark"))
  }

  test("two watermarks on one input are rejected") {
    val twice = streams.raw("o").withWatermark("t", "0 seconds").withColumn("u", expr("t + INTERVAL 1 HOUR"))
    for (column <- Seq("u", "t")) {
      val error = rejection(
        twice.withWatermark(column, "5 seconds").as("o").join(streams.marked("d"), expr(Hourly))
      )
      assert(error.getCondition == "STREAMJOIN_TWO_WATERMARKS")
      assert(error.getMessageParameters.get("first") == "t")
    }
  }

  test("the advice for a join above another names the inputs of that join, or the alias of its result") {
    val both = streams
      .marked("o")
      .join(
        streams.raw("d").withColumnRenamed("t", "at").withWatermark("at", "0 seconds").as("d"),
        expr("o.id = d.id AND d.at BETWEEN o.t AND o.t + INTERVAL 1 HOUR")
      )
    for (
      (left, condition, column) <- Seq(
        (both, "e.v = d.v", "o.t"),
        (both, "e.v = o.v AND e.id = d.id", "o.t"),
        (both.selectExpr("o.t", "d.v AS w"), "e.v = w", "o.t"),
        (both.selectExpr("o.id", "o.t", "d.v").as("f"), "e.v = f.v", "f.t"),
        (both.selectExpr("o.id", "o.t", "d.v").as("d"), "e.v = d.v", "d.t")
      )
    ) {
      def joined(condition: String) = left.join(streams.marked("e"), expr(condition))
      val error = rejection(joined(condition))
      assert(error.getCondition == unbounded)
      val rewrite = error.getMessageParameters.get("rewrite")
      assert(rewrite.contains(s"$column - INTERVAL"), s"$condition: $rewrite")
      assert(joins(joined(s"$condition AND $rewrite")).size == 2)
    }
  }

  test("a query is rejected if one of its two joins is") {
    val first = join(Hourly).selectExpr("o.id AS id", "o.t AS t").as("f")
    val error = rejection(first.join(streams.marked("e"), expr("f.id = e.id")))
    assert(error.getCondition == "STREAMJOIN_UNBOUNDED")
  }

  test("an invalid value of unbounded is rejected") {
    intercept[IllegalArgumentException](withConf("spark.streamjoin.unbounded" -> "maybe")(())): Unit
  }

  test("a setting that does not exist is rejected") {
    for (name <- Seq("spark.streamjoin.laterows", "spark.streamjoin.enabeld", "spark.streamJoin.enabled"))
      withConf(name -> "keep") {
        val error = rejection(join(Hourly))
        assert(error.getCondition == "STREAMJOIN_UNKNOWN_SETTING")
        assert(error.getMessage.contains(name))
        assert(error.getMessage.contains("spark.streamjoin.lateRows,"))
      }
    withConf("spark.streamjoin.lateRows" -> "keep")(assert(joins(join(Hourly)).size == 1))
  }
}
