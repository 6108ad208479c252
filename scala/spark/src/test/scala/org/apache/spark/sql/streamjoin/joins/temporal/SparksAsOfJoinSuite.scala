package org.apache.spark.sql.streamjoin.joins.temporal

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.catalyst.plans.logical.AsOfJoin
import org.apache.spark.sql.classic.{Dataset => ClassicDataset}
import org.apache.spark.sql.functions.{col, expr}
import org.apache.spark.sql.streamjoin.{JoinTest, SparkTest}
import org.apache.spark.sql.{AnalysisException, Column, DataFrame, Row}

/**
 * `df._joinAsOf`, which Spark has for batches: on two streams it gives the rows that Spark gives
 * for the same rows as batches.
 */
class SparksAsOfJoinSuite extends AnyFunSuite with TemporalTest {
  import JoinTest._

  /** The arguments of `df._joinAsOf`; `on` is SQL, and without it the key is `id`. */
  private case class Options(
      direction: String = "backward",
      tolerance: Option[String] = None,
      exact: Boolean = true,
      how: String = "inner",
      on: Option[String] = None,
      rightTime: Column = col("d.t")
  ) {
    def apply(left: DataFrame, right: DataFrame): DataFrame = {
      val (frame, other) = (classic(left), classic(right))
      val by = tolerance.map(expr).orNull
      on.fold(frame.joinAsOf(other, col("o.t"), rightTime, Seq("id"), how, by, exact, direction)) { condition =>
        frame.joinAsOf(other, col("o.t"), rightTime, expr(condition), how, by, exact, direction)
      }
    }
  }

  private def classic(frame: DataFrame) = frame.asInstanceOf[ClassicDataset[Row]]

  private def of(options: Options)(streams: Streams): DataFrame =
    options(streams.marked("o"), streams.marked("d"))

  private def batch(name: String, rows: Seq[(String, Row)]): DataFrame = {
    val own = rows.collect { case (`name`, row) => row }
    spark.createDataFrame(java.util.List.of(own: _*), newStreams().raw(name).schema).as(name)
  }

  // The distances of one fact all differ, and some equal the tolerance exactly.
  private val rows = Seq(
    o("a", "10:10", 1),
    o("a", "10:20", 2),
    o("a", "10:50", 3),
    o("b", "10:00", 4),
    o("c", "10:00", 5),
    o(null, "10:00", 6),
    d("a", "10:10", 11),
    d("a", "10:17", 12),
    d("a", "10:30", 13),
    d("a", "10:43", 14),
    d("b", "10:03", 15),
    d("b", "09:56", 16),
    d(null, "10:00", 17)
  )

  private val all = for {
    (options, number) <- Seq(
      Options(),
      Options(exact = false),
      Options(tolerance = Some("INTERVAL 7 MINUTES")),
      Options(tolerance = Some("INTERVAL 7 MINUTES"), exact = false),
      Options("forward", Some("INTERVAL 10 MINUTES")),
      Options("forward", Some("INTERVAL '00:10' HOUR TO MINUTE"), exact = false),
      Options("nearest", Some("INTERVAL 7 MINUTES"), on = Some("o.id = d.id AND d.v <> 12")),
      Options("nearest", Some("INTERVAL 7 MINUTES"), exact = false),
      Options("nearest", Some("INTERVAL 0 SECONDS"), exact = false)
    ).zipWithIndex
  } yield options.copy(how = if (number % 2 == 0) "left_outer" else "inner")

  private val some = SparkTest.part(all, every = 3, from = 1)

  testAll[Options](some, _.toString.replaceAll("Options|, t\\)", "")) { options =>
    def picked(joined: DataFrame) = joined.selectExpr("o.v AS a", "d.v AS b")
    val sparks = options(batch("o", rows), batch("d", rows))
    assert(sparks.queryExecution.analyzed.exists(_.isInstanceOf[AsOfJoin]))
    val expected = picked(sparks).collect().map(text(_: Row)).toSeq.sorted
    running(job(streams => picked(of(options)(streams)))) { job =>
      // Both watermarks are 14:00, further past all rows than any tolerance.
      val seen = job.feed(rows: _*) ++ job.feed(end("14:00"): _*)
      assert(seen.sorted == expected)
    }
  }

  private def rejected(condition: String, word: String)(made: => DataFrame): Unit = {
    val error = intercept[AnalysisException](made)
    assert(error.getCondition == condition, error.getMessage)
    assert(error.getMessage.contains(word), error.getMessage)
  }

  test("_joinAsOf rejects what sj.asof_join rejects, by the same name") {
    val streams = newStreams()
    def made(options: Options) = of(options)(streams)
    rejected("STREAMJOIN_TEMPORAL.NO_TOLERANCE", "would wait forever")(made(Options("forward")))
    rejected("STREAMJOIN_TEMPORAL.NO_TOLERANCE", "would wait forever")(made(Options("nearest")))
    rejected("STREAMJOIN_TEMPORAL.MIXED_CONDITION", "is neither an equality") {
      made(Options(on = Some("o.id = d.id AND o.v < d.v")))
    }
    rejected("STREAMJOIN_TEMPORAL.TIMES", "does not compare the event times") {
      made(Options(rightTime = expr("d.t + INTERVAL 1 HOUR")))
    }
    rejected("STREAMJOIN_DURATION", "tolerance")(made(Options(tolerance = Some("INTERVAL 1 MONTH"))))
    val unmarked = Options()(streams.raw("o").as("o"), streams.marked("d")).select("o.v")
    assert(rejection(unmarked).getCondition == "STREAMJOIN_TEMPORAL_TIME")
  }

  test("Spark handles invalid tolerances, batch inputs, and everything if streamjoin is switched off") {
    val streams = newStreams()
    rejected("AS_OF_JOIN.TOLERANCE_IS_NON_NEGATIVE", "tolerance") {
      of(Options(tolerance = Some("INTERVAL '-1' HOUR")))(streams)
    }
    def isOurs(joined: DataFrame) = joined.queryExecution.analyzed.exists(_.isInstanceOf[StreamAsOfJoin])
    val (left, right) = (batch("o", rows), batch("d", rows))
    assert(!isOurs(Options()(streams.marked("o"), right)))
    assert(!isOurs(Options()(left, streams.marked("d"))))
    assert(isOurs(of(Options())(streams)))
    withConf("spark.streamjoin.enabled" -> "false")(assert(!isOurs(of(Options())(streams))))
  }

  test("_joinAsOf joins a stream with itself and keeps the column names") {
    val streams = newStreams()
    val self = classic(streams.marked("o"))
    val joined = self.joinAsOf(
      self,
      self("t"),
      self("t"),
      Seq("id"),
      "left_outer",
      null,
      allowExactMatches = false,
      direction = "backward"
    )
    assert(joined.queryExecution.analyzed.exists(_.isInstanceOf[StreamAsOfJoin]))
    assert(joined.columns.toSeq == Seq("id", "t", "v", "id", "t", "v"))
  }
}
