package org.apache.spark.sql.streamjoin.analysis

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.catalyst.plans.logical.BatchEvalPython
import org.apache.spark.sql.classic.{Dataset => ClassicDataset}
import org.apache.spark.sql.functions.expr
import org.apache.spark.sql.streamjoin.JoinTest
import org.apache.spark.sql.types.IntegerType
import org.apache.spark.sql.{DataFrame, Row}

/** What is computed below `withWatermark`, and the filters above it. */
class WatermarkPlacementSuite extends AnyFunSuite with JoinTest {
  import JoinTest._

  /** Orders with computed columns, which Spark knows to equal their expressions. */
  private def computed(streams: Streams, columns: String): DataFrame =
    streams.raw("o").selectExpr("*", columns).withWatermark("t", "0 seconds").as("o")

  private def joined(orders: DataFrame, streams: Streams): DataFrame =
    orders.join(streams.marked("d"), expr(Hourly))

  test("columns whose values cannot be compared may be computed before withWatermark") {
    val columns =
      Seq("map('k', v)", "to_variant_object(struct(v))", "make_interval(0, 0, 0, v)", "struct(map(id, v))")
    for (column <- columns) {
      val streams = newStreams()
      assert(joins(joined(computed(streams, s"$column AS x"), streams)).size == 1, column)
    }
    running(
      job(streams => joined(computed(streams, "map('k', v) AS x"), streams).selectExpr("o.x['k']", "d.v"))
    ) { job =>
      assert(job.feed(o("a", "10:00", 1), d("a", "10:10", 2)) == Seq("1 2"))
    }
  }

  test("a filter moves below withWatermark, whatever is computed there") {
    for (column <- Seq("v + 1 BETWEEN 0 AND 5", "nullif(v + 1, 3)", "regexp_substr(concat(id, 'x'), 'a+')"))
      running(job { streams =>
        joined(computed(streams, s"$column AS x").where("v >= 0"), streams).selectExpr("o.v", "d.v")
      }) { job =>
        job.feed(o("a", "10:00", 1), o("gone", "12:00", -1), d("x", "10:00"))
        job.feed(o("a", "10:01", 1), d("x", "10:00"))
        assert(job.watermark("left") == "10:01", column)
      }
  }

  test("a Python function below withWatermark is computed once") {
    createPythonFunction(IntegerType)
    val streams = newStreams()
    val frame = joined(computed(streams, "python_function(v) AS x"), streams).selectExpr("o.v", "o.x")
    val query = frame.asInstanceOf[ClassicDataset[Row]].queryExecution.analyzed
    val optimized = OptimizedQuery.of(PreparedQuery.of(query), spark)
    assert(optimized.collect { case call: BatchEvalPython => call }.size == 1)
  }
}
