package org.apache.spark.sql.streamjoin.watermark

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.functions.expr
import org.apache.spark.sql.streamjoin.{Frames, JoinTest}
import org.apache.spark.sql.{AnalysisException, DataFrame}

/** What `imposeOrder`, `withBounds` and `idleAfter` reject before a query starts. */
class StreamInputRejectionsSuite extends AnyFunSuite with JoinTest {
  import Frames._

  private lazy val streams = newStreams()
  private lazy val raw = streams.raw("o").withColumn("b", expr("v < 0"))
  private lazy val marked = streams.marked("o").withColumn("b", expr("v < 0"))
  private lazy val batch =
    spark.sql("SELECT '' AS id, TIMESTAMP '2024-06-01 10:00:00' AS t, false AS b")

  private case class Case(call: String, condition: String, words: String, frame: () => DataFrame)

  private def rejected(call: String, condition: String, words: String)(frame: => DataFrame) =
    Case(call, condition, words, () => frame)

  private def duration(call: String, words: String)(frame: => DataFrame) =
    Case(call, "STREAMJOIN_DURATION", words, () => frame)

  private def noStream(call: String)(frame: => DataFrame) =
    Case(call, "STREAMJOIN_NOT_A_STREAM.STREAM", "this one is a batch", () => frame)

  private def twice(call: String)(frame: => DataFrame) =
    Case(call, "STREAMJOIN_TWO_WATERMARKS", "one on t", () => frame)

  private val order = "sj.impose_order"
  private val bounds = "sj.with_bounds"
  private val idle = "sj.idle_after"

  private val cases = Seq(
    rejected(order, "STREAMJOIN_COLUMN.UNKNOWN", "the column u: there is no such column")(
      imposeOrder(raw, "u", "1 second")
    ),
    rejected(
      order,
      "STREAMJOIN_COLUMN.NOT_A_TIMESTAMP",
      "the column v: an event time must be a TIMESTAMP column, but this one is INT"
    )(
      imposeOrder(raw, "v", "1 second")
    ),
    rejected(order, "STREAMJOIN_COLUMN.NOT_A_TIME", "this one is BOOLEAN")(imposeOrder(raw, "b", "1 second")),
    duration(order, "lag='-1 second' of sj.impose_order cannot be used: it is negative")(
      imposeOrder(raw, "t", "-1 second")
    ),
    duration(order, "write it in days")(imposeOrder(raw, "t", "1 month")),
    duration(order, "not a number followed by a unit")(imposeOrder(raw, "t", "1 parsec")),
    duration(order, "a thousand years")(imposeOrder(raw, "t", "400000 days")),
    twice(order)(imposeOrder(marked, "t", "1 second")),
    noStream(order)(imposeOrder(batch, "t", "1 second")),
    rejected(
      bounds,
      "STREAMJOIN_COLUMN.IS_BOUND_TYPE",
      "is_bound must be a boolean column, but this one is INT"
    )(
      withBounds(raw, "t", "v", Some("0 seconds"))
    ),
    rejected(bounds, "STREAMJOIN_COLUMN.UNKNOWN", "there is no such column")(
      withBounds(raw, "t", "u", Some("0 seconds"))
    ),
    rejected(bounds, "STREAMJOIN_COLUMN.NOT_A_TIMESTAMP", "this one is INT")(
      withBounds(raw, "v", "b", Some("0 seconds"))
    ),
    rejected(bounds, "STREAMJOIN_COLUMN.NO_WATERMARK", "it has no watermark")(withBounds(raw, "t", "b")),
    rejected(bounds, "STREAMJOIN_COLUMN.PARTITION_TYPE", "per must be a column of numbers or strings")(
      withBounds(raw, "t", "b", Some("0 seconds"), Some("t"))
    ),
    duration(bounds, "it is negative")(withBounds(raw, "t", "b", Some("-1 second"))),
    duration(bounds, "write it in days")(withBounds(raw, "t", "b", Some("1 year"))),
    twice(bounds)(withBounds(marked, "t", "b", Some("0 seconds"))),
    noStream(bounds)(withBounds(batch, "t", "b", Some("0 seconds"))),
    rejected(bounds, "STREAMJOIN_INPUT.OUTPUT_OF_OPERATOR", "a stateful operator (Aggregate)")(
      withBounds(marked.groupBy("t", "b").count(), "t", "b")
    ),
    rejected(bounds, "STREAMJOIN_INPUT.PER_NEEDS_ONE_STREAM", "per needs one stream")(
      withBounds(marked.union(marked), "t", "b", per = Some("id"))
    ),
    duration(idle, "after='0 seconds' of sj.idle_after cannot be used: it is not a millisecond or longer")(
      idleAfter(marked, "0 seconds")
    ),
    duration(idle, "not a millisecond or longer")(idleAfter(marked, "-1 second")),
    duration(idle, "write it in days")(idleAfter(marked, "1 month")),
    rejected(idle, "STREAMJOIN_INPUT.NO_WATERMARK", "the stream has no watermark")(
      idleAfter(raw, "1 second")
    ),
    rejected(idle, "STREAMJOIN_INPUT.OUTPUT_OF_OPERATOR", "a stateful operator (Join)")(
      idleAfter(marked.as("a").join(streams.marked("d"), expr(Hourly.replace("o.", "a."))), "1 second")
    ),
    noStream(idle)(idleAfter(batch, "1 second"))
  )

  for (rejection <- cases) test(s"${rejection.call}: ${rejection.words}") {
    val error = intercept[AnalysisException](rejection.frame())
    assert(error.getCondition == rejection.condition, error.getMessage)
    assert(error.getMessage.contains(rejection.words), error.getMessage)
    assert(!error.getMessage.matches("(?s).*<(call|reason|argument|duration|advice)>.*"), error.getMessage)
    if (rejection.condition != "STREAMJOIN_TWO_WATERMARKS")
      assert(error.getMessage.contains(rejection.call), error.getMessage)
  }
}
