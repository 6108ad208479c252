package org.apache.spark.sql.streamjoin.joins.temporal

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.functions.{expr, lit, max}
import org.apache.spark.sql.streamjoin.{Frames, JoinTest}
import org.apache.spark.sql.{AnalysisException, DataFrame}

/** A temporal or as-of join that cannot run is rejected with an error that says what to write. */
class TemporalRejectionsSuite extends AnyFunSuite with TemporalTest {
  import JoinTest._

  private def building(condition: String, words: String*)(made: Streams => DataFrame): Unit = {
    val error = intercept[AnalysisException](made(newStreams()))
    assert(error.getCondition == condition, error.getMessage)
    words.foreach(word => assert(error.getMessage.contains(word), error.getMessage))
  }

  private def temporalOf(left: DataFrame, right: DataFrame, on: String = "o.id = d.id") =
    Frames.temporal(left.as("o").join(right.as("d"), expr(on)))

  private def joined(streams: Streams): DataFrame =
    streams.marked("o").join(streams.marked("d"), expr("o.id = d.id"))

  test("a key outside the equality is rejected") {
    for (on <- Seq("o.v = d.v", "o.id <> d.id", "o.id = concat(d.id, 'x')", "d.id = 'a'"))
      building("STREAMJOIN_TEMPORAL.KEY_NOT_TIED", "has no equality for id", "on=\"... = id\"") {
        temporal(on = on)
      }
    building("STREAMJOIN_TEMPORAL.NO_KEY", "no key", "key=")(s => Frames.temporal(joined(s), key = Nil))
  }

  test("a key is rejected if its comparison makes different keys equal") {
    building("STREAMJOIN_TEMPORAL.KEY_NOT_TIED", "has no equality for id") { streams =>
      val facts = streams.marked("o").selectExpr("CAST(v AS DOUBLE) AS id", "t")
      temporalOf(facts, streams.marked("d").selectExpr("CAST(v AS LONG) AS id", "t"))
    }
    val streams = newStreams()
    temporalOf(
      streams.marked("o").selectExpr("CAST(v AS LONG) AS id", "t"),
      streams.marked("d").selectExpr("v AS id", "t")
    )
  }

  test("a condition that cannot run in a task is rejected") {
    building("STREAMJOIN_TEMPORAL.NOT_REPEATABLE", "a random value, a subquery or a Python function") {
      temporal(on = "o.id = d.id AND o.v IN (SELECT id FROM range(3))")
    }
  }

  test("join types other than inner and left are rejected") {
    for (how <- Seq("right_outer", "full_outer", "left_semi", "left_anti"))
      building("STREAMJOIN_TEMPORAL.JOIN_TYPE", "temporal join", "how=\"left\"")(temporal(how))
    for (how <- Seq("right_outer", "full_outer"))
      building("STREAMJOIN_TEMPORAL.JOIN_TYPE", "as-of join", "how=\"left\"")(asof(how))
  }

  test("missing columns and columns of the wrong type are rejected") {
    building("STREAMJOIN_COLUMN.UNKNOWN", "nope", "id, t, v") { streams =>
      Frames.temporal(joined(streams), key = Seq("nope"))
    }
    building("STREAMJOIN_COLUMN.OPERATION_TYPE", "op must be a string column") { streams =>
      Frames.temporal(joined(streams), op = Some("v"))
    }
    building("STREAMJOIN_COLUMN.NOT_A_TIMESTAMP", "an event time must be a TIMESTAMP") { streams =>
      Frames.temporal(joined(streams), asOf = "v")
    }
  }

  test("invalid durations are rejected") {
    building("STREAMJOIN_DURATION", "history", "negative")(temporal(history = Some("-1 hour")))
    building("STREAMJOIN_DURATION", "tolerance", "months")(asof(tolerance = Some("1 month")))
    building("STREAMJOIN_DURATION", "tolerance")(asof(tolerance = Some("soon")))
  }

  test("an as-of join that could wait forever, or compares no event times, is rejected") {
    building("STREAMJOIN_TEMPORAL.NO_TOLERANCE", "wait forever", "tolerance=\"10 minutes\"")(
      asof(condition = "o.t <= d.t")
    )
    building("STREAMJOIN_TEMPORAL.NO_TOLERANCE", "wait forever")(asof(condition = "d.t > o.t"))
    for (
      condition <- Seq(
        "o.t = d.t",
        "o.v >= d.v",
        "o.t >= d.t - INTERVAL 1 HOUR",
        "o.t >= o.t",
        "o.t > d.t OR o.v = 1"
      )
    )
      building("STREAMJOIN_TEMPORAL.TIMES", "does not compare the event times", "match=\"l.t >= r.t\"") {
        asof(condition = condition)
      }
    building("STREAMJOIN_TEMPORAL.MIXED_CONDITION", "is neither an equality", "joined.where")(
      asof(on = "o.id = d.id AND o.v < d.v")
    )
    building("STREAMJOIN_TEMPORAL.DIRECTION", "sideways", "\"nearest\"") { streams =>
      Frames.closest(joined(streams), "t", "t", "sideways", allowsExact = true, None)
    }
  }

  test("a batch on either side is rejected") {
    val batch = spark.range(1).selectExpr("'a' AS id", "TIMESTAMP'2024-06-01' AS t", "1 AS v")
    building("STREAMJOIN_NOT_A_STREAM.AS_OF", "the right input is a batch")(s =>
      temporalOf(s.marked("o"), batch)
    )
    building("STREAMJOIN_NOT_A_STREAM.AS_OF", "the left input is a batch")(s =>
      temporalOf(batch, s.marked("d"))
    )
  }

  test("a stream whose rows can be retracted is rejected") {
    building("STREAMJOIN_TEMPORAL.TAKES_BACK", "_change_type", "cannot retract emitted rows") { streams =>
      temporalOf(streams.marked("o").withColumn("_change_type", lit(1)), streams.marked("d"))
    }
  }

  test("a side without a watermark is rejected at start()") {
    val streams = newStreams()
    for (
      (left, right) <- Seq(streams.raw("o") -> streams.marked("d"), streams.marked("o") -> streams.raw("d"))
    ) {
      val error = rejection(temporalOf(left, right).select("o.v"))
      assert(error.getCondition == "STREAMJOIN_TEMPORAL_TIME")
      assert(error.getMessage.contains("withWatermark"))
    }
  }

  test("a time that has lost its watermark is rejected at start()") {
    val streams = newStreams()
    val between = expr("o.id = r.id AND o.t >= r.t AND o.t <= r.t + INTERVAL 1 HOUR")
    val left = streams.marked("o").join(streams.marked("r"), between).select("o.id", "o.t", "o.v").as("o")
    val first = Frames.temporal(left.join(streams.marked("d"), expr("o.id = d.id"), "left_outer"))
    val matched = first.selectExpr("o.id AS id", "d.t AS t", "o.v AS v").as("o")
    val second = Frames.temporal(matched.join(streams.marked("e"), expr("o.id = e.id")))
    assert(rejection(second.select("o.v")).getCondition == "STREAMJOIN_ORDER_WATERMARK")
  }

  test("a key that is not the same in every batch is rejected at start()") {
    val streams = newStreams()
    val on = "concat(o.id, current_date()) = d.id"
    val error = rejection(temporalOf(streams.marked("o"), streams.marked("d"), on).select("o.v"))
    assert(error.getCondition == "STREAMJOIN_TEMPORAL.KEY_TYPE", error.getMessage)
  }

  test("update and complete mode are rejected, and every temporal join if streamjoin is switched off") {
    for (mode <- Seq("update", "complete"))
      assert(
        rejection(values(temporal("inner"))(newStreams()), mode).getCondition == "STREAMJOIN_OUTPUT_MODE"
      )
    // In update mode an aggregation emits its groups again; in append mode each is final.
    val streams = newStreams()
    val groups = streams.marked("o").groupBy("id", "t").agg(max("v").as("v"))
    val joined = temporalOf(groups, streams.marked("d")).select("o.v")
    assert(rejection(joined, "update").getCondition == "STREAMJOIN_OUTPUT_MODE")
    withConf("spark.streamjoin.enabled" -> "false") {
      val error = rejection(values(temporal())(newStreams()))
      assert(error.getCondition == "STREAMJOIN_TEMPORAL_DISABLED")
    }
  }

  test("STREAMJOIN_UNBOUNDED offers an as-of join if the condition fits one") {
    val streams = newStreams()
    def message(how: String, on: String) =
      rejection(streams.marked("o").join(streams.marked("d"), expr(on), how).select("o.v")).getMessage
    assert(
      message("inner", "o.id = d.id AND o.t >= d.t")
        .contains("sj.asof_join(left, right, on, match=\"o.t >= d.t\"),")
    )
    assert(
      message("left_outer", "o.id = d.id AND d.t > o.t")
        .contains("sj.asof_join(left, right, on, match=\"d.t > o.t\", tolerance=\"10 minutes\"),")
    )
    assert(!message("inner", "o.id = d.id").contains("asof_join"))
    assert(!message("full_outer", "o.id = d.id AND o.t >= d.t").contains("asof_join"))
  }
}
