package org.apache.spark.sql.streamjoin.front.functions

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.catalyst.plans.logical.{EventTimeWatermark, LogicalPlan, WithCTE}
import org.apache.spark.sql.classic.{Dataset => ClassicDataset}
import org.apache.spark.sql.functions.{call_function, col, lit}
import org.apache.spark.sql.streamjoin.SqlTest
import org.apache.spark.sql.streamjoin.watermark.IdleAfter

import streamjoin.StreamJoin

/**
 * Functions of the API as calls in a query. What each of them does is tested where it is; here is
 * how they are called.
 */
class FrameCallsSuite extends AnyFunSuite with SqlTest {

  private def analyzed(text: String): LogicalPlan = {
    views
    spark.sql(text).asInstanceOf[ClassicDataset[_]].queryExecution.analyzed
  }

  private val Idle = """sj_idle_after('{"after": "30 seconds"}')"""

  test("a call replaces the whole projection, wherever the query stands") {
    for (
      query <- Seq(
        s"SELECT *, $Idle FROM o",
        s"SELECT *, ${Idle.toUpperCase.replace("AFTER\"", "after\"").replace("SECONDS", "seconds")} FROM o",
        s"SELECT * FROM (SELECT *, $Idle FROM o) WHERE v > 0",
        s"WITH x AS (SELECT *, $Idle FROM o) SELECT * FROM x",
        s"SELECT *, $Idle FROM (WITH x AS (SELECT * FROM o) SELECT * FROM x)",
        s"WITH x AS (SELECT * FROM o), y AS (SELECT * FROM x WHERE v > 0) SELECT *, $Idle FROM y"
      )
    ) {
      val plan = analyzed(query)
      assert(plan.collectWithSubqueries { case idle: IdleAfter => idle.timeoutMs } == Seq(30000L), query)
      assert(plan.output.map(_.name) == Seq("id", "t", "v"), query)
    }
  }

  test("tables of WITH are read once, also by a call that looks below them") {
    val plan = analyzed(
      s"WITH x AS (SELECT * FROM o) SELECT a.id FROM (SELECT *, $Idle FROM x) AS a JOIN d " +
        "ON a.id = d.id AND d.t BETWEEN a.t AND a.t + INTERVAL 1 HOUR"
    )
    assert(!plan.exists(_.isInstanceOf[WithCTE]))
    assert(plan.collect { case mark: EventTimeWatermark => mark }.size == 2)
    val bounds = spark.sql(
      "WITH x AS (SELECT * FROM o) SELECT *, sj_bounds() FROM " +
        "(SELECT x.id FROM x JOIN d ON x.id = d.id AND d.t BETWEEN x.t AND x.t + INTERVAL 1 HOUR)"
    )
    assert(bounds.collect().map(_.getAs[String]("side")).toSeq == Seq("left", "right"))
  }

  test("columns are resolved by the query below, and the result by its own columns") {
    views
    val (left, right) = (spark.table("o").alias("l"), spark.table("d").alias("r"))
    val joined = left.join(right, Seq("id"))
    val matching = call_function("sj_asof_join", lit("{}"), col("l.t") >= col("r.t"))
    val direct = StreamJoin.asOf(left, right).on("id").matching(col("l.t") >= col("r.t")).toDF()
    val called = joined.select(col("*"), matching)
    assert(called.schema == direct.schema)
    assert(called.select(col("l.v"), col("r.v")).columns.toSeq == Seq("v", "v"))
    val window = joined.select(col("*"), call_function("sj_window_join", lit("""{"following": "1 hour"}""")))
    assert(window.select("rowtime", "id").schema.map(_.dataType.sql) == Seq("TIMESTAMP", "STRING"))
  }

  test("a call that cannot be taken says why") {
    for (
      (query, condition, words) <- Seq(
        (s"SELECT id, $Idle FROM o", "STREAMJOIN_CALL.NOT_ALONE", "the only expression besides the star"),
        (s"SELECT *, $Idle AS x FROM o", "STREAMJOIN_CALL.NOT_ALONE", "the only expression besides the star"),
        (s"SELECT *, v, $Idle FROM o", "STREAMJOIN_CALL.NOT_ALONE", "the only expression besides the star"),
        (s"SELECT * FROM o WHERE $Idle", "STREAMJOIN_CALL.NOT_ALONE", "the only expression besides the star"),
        ("SELECT *, sj_idle_after(v) FROM o", "STREAMJOIN_CALL.NOT_JSON", "not v"),
        ("SELECT *, sj_idle_after('30 seconds') FROM o", "STREAMJOIN_CALL.NOT_JSON", "not 30 seconds"),
        ("SELECT *, sj_idle_after('[]') FROM o", "STREAMJOIN_CALL.NOT_JSON", "a JSON object as text"),
        ("SELECT *, sj_idle_after() FROM o", "STREAMJOIN_CALL.MISSING_ARGUMENT", "after takes a text"),
        (
          """SELECT *, sj_idle_after('{"after": 30}') FROM o""",
          "STREAMJOIN_CALL.ARGUMENT",
          "after takes a text, but is 30"
        ),
        (
          """SELECT *, sj_idle_after('{"later": "1s"}') FROM o""",
          "STREAMJOIN_CALL.UNKNOWN_ARGUMENT",
          "later. Its arguments: after"
        ),
        (
          """SELECT *, sj_bounds('{"x": 1}') FROM o""",
          "STREAMJOIN_CALL.UNKNOWN_ARGUMENT",
          "x. Its arguments: none"
        ),
        (
          s"SELECT *, ${Idle.dropRight(1)}, v) FROM o",
          "STREAMJOIN_CALL.COLUMNS",
          "at most 0 columns after the JSON, not 1"
        ),
        (
          "SELECT *, sj_column('{}') FROM o",
          "STREAMJOIN_CALL.COLUMNS",
          "at most 1 columns after the JSON, not 0"
        ),
        (
          "SELECT *, sj_asof_join('{}', *) FROM o JOIN d ON o.id = d.id",
          "STREAMJOIN_CALL.STAR",
          "takes a column, not a star"
        ),
        (
          """SELECT *, sj_arrange('{"path": "x", "keys": "id"}') FROM o""",
          "STREAMJOIN_CALL.ARGUMENT",
          "keys takes a list"
        ),
        (
          """SELECT *, sj_arrange('{"path": "x", "keys": ["id"]}') FROM o""",
          "STREAMJOIN_CALL.ARGUMENT",
          "a list of lists of texts"
        ),
        (
          """SELECT *, sj_impose_order('{"time": "t", "lag": "1s", "sort": "yes"}') FROM raw""",
          "STREAMJOIN_CALL.ARGUMENT",
          "sort takes true or false"
        ),
        (
          """SELECT *, sj_delta_join('{"names": ["a", "b"], "how": "inner"}') FROM o""",
          "STREAMJOIN_DELTA.OPERATOR",
          "more than a plain condition"
        ),
        (
          """SELECT *, sj_window_join('{"following": "1 hour"}') FROM o""",
          "STREAMJOIN_NOT_A_STREAM.INPUT_IS_TABLE",
          "two streams, and an input is a table"
        )
      )
    ) {
      val error = rejected(query)._1
      assert(error.getCondition == condition, query)
      assert(error.getMessage.contains(words), s"$query: ${error.getMessage}")
    }
    assert(
      intercept[AnalysisException](
        analyzed("SELECT *, sj_nothing('{}') FROM o")
      ).getCondition == "UNRESOLVED_ROUTINE"
    )
  }

  test("a delta join takes nothing but changes of arrangements") {
    views
    val joined = spark.table("o").alias("o").join(spark.table("d").alias("d")).where("o.id = d.id")
    val call = call_function("sj_delta_join", lit("""{"names": ["o", "d"], "how": "inner"}"""))
    val error = intercept[AnalysisException](joined.select("o.id").select(col("*"), call))
    assert(error.getCondition == "STREAMJOIN_DELTA.NOT_AN_ARRANGEMENT", error.getMessage)
  }

  test("a user's function of the name takes precedence") {
    views
    spark.udf.register("sj_idle_after", (text: String) => text.length)
    try {
      val found = spark.sql("SELECT *, sj_idle_after('abc') FROM batch").collect()
      assert(found.map(_.getInt(3)).toSeq == Seq(3))
    } finally spark.sql("DROP TEMPORARY FUNCTION sj_idle_after"): Unit
  }

  test("sj_version has the versions of the jar") {
    val found = spark.sql("SELECT * FROM sj_version()").head()
    assert(found.getString(0) == StreamJoin.version)
    assert(found.getString(1) == StreamJoin.sparkVersion)
    assert(
      rejected(
        "SELECT * FROM sj_version(1)"
      )._1.getCondition == "STREAMJOIN_TABLE_FUNCTION.TOO_MANY_ARGUMENTS"
    )
  }
}
