package org.apache.spark.sql.streamjoin.front.sql

import scala.jdk.CollectionConverters._

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.catalyst.parser.ParseException
import org.apache.spark.sql.streamjoin.{JoinTest, SparkTest, SqlTest}

import streamjoin.StreamJoin

/** `sj_bounds` and `sj_late_rows`. */
class TableFunctionsSuite extends AnyFunSuite with SqlTest {
  import JoinTest._

  private val within = "SELECT o.id FROM o JOIN d WITHIN BETWEEN 0s AND 1h ON o.id = d.id"

  test("sj_bounds shows the bounds of a query") {
    views
    val expected = StreamJoin.bounds(spark.sql(within)).collect().toSeq
    assert(expected.map(_.getAs[String]("keeps")) == Seq("o kept 1 hour", "d kept 0 seconds"))
    for (
      query <- Seq(
        s"SELECT * FROM sj_bounds(TABLE($within))",
        s"WITH q AS ($within) SELECT * FROM sj_bounds(TABLE(q))",
        s"WITH p AS (SELECT * FROM o), q AS (${within.replace("FROM o", "FROM p AS o")}), r AS (SELECT 1 AS n) " +
          "SELECT b.* FROM sj_bounds(TABLE(q)) AS b, r"
      )
    ) {
      val found = spark.sql(query)
      assert(!found.isStreaming)
      assert(found.collect().map(_.getAs[String]("keeps")).toSeq == expected.map(_.getAs[String]("keeps")))
    }
    assert(
      spark.sql(s"SELECT keeps FROM SJ_BOUNDS(TABLE($within)) WHERE side = 'left'").collect().length == 1
    )
  }

  test("sj_bounds may stand in common tables and views") {
    views
    val bounds = s"SELECT side, keeps FROM sj_bounds(TABLE($within))"
    val keeps = Seq("left o kept 1 hour", "right d kept 0 seconds")
    def rows(query: String) = spark.sql(query).collect().map(row => s"${row(0)} ${row(1)}").toSeq.sorted
    assert(rows(s"WITH b AS ($bounds) SELECT * FROM b") == keeps)
    assert(
      rows(s"WITH b AS ($bounds), c AS (SELECT * FROM b) SELECT c.* FROM b JOIN c USING (side)") == keeps
    )
    assert(rows(s"WITH b AS ($bounds) SELECT 'n', count(*) FROM b") == Seq("n 2"))
    spark.sql(s"CREATE OR REPLACE TEMPORARY VIEW bounds AS $bounds")
    assert(rows("SELECT * FROM bounds") == keeps)
    spark.sql(s"CREATE OR REPLACE TEMPORARY VIEW joined AS $within")
    assert(rows(s"SELECT side, keeps FROM sj_bounds(TABLE(joined))") == keeps)
  }

  test("invalid arguments of sj_bounds and sj_late_rows are rejected") {
    for (
      (query, condition) <- Seq(
        "SELECT * FROM sj_bounds(TABLE(SELECT 1))" -> "STREAMJOIN_NOT_A_STREAM.BOUNDS",
        "SELECT * FROM sj_bounds(TABLE(SELECT o.id FROM o JOIN d ON o.id = d.id))" -> "STREAMJOIN_UNBOUNDED",
        "SELECT * FROM sj_bounds('o')" -> "STREAMJOIN_TABLE_FUNCTION.NO_TABLE",
        "SELECT * FROM sj_bounds()" -> "STREAMJOIN_TABLE_FUNCTION.MISSING_ARGUMENT",
        "SELECT * FROM sj_late_rows()" -> "STREAMJOIN_TABLE_FUNCTION.MISSING_ARGUMENT",
        "SELECT * FROM sj_late_rows('nobody')" -> "STREAMJOIN_TABLE_FUNCTION.UNKNOWN_QUERY"
      )
    ) assert(rejected(query)._1.getCondition == condition, query)
  }

  test("sj_late_rows gives the late rows of a query that has stopped, by its id and by its name") {
    withConf("spark.streamjoin.lateRows" -> "keep") {
      val stopped = job(sql(within))
      val id = running(stopped) { run =>
        run.feed(o("a", "10:00"), d("a", "10:00"))
        run.feed(o("b", "12:00"), d("b", "12:00"))
        run.feed(o("late", "09:00", 7))
        run.streaming.id
      }
      assert(!spark.streams.active.exists(_.id == id))
      val rows = spark.sql(s"SELECT row FROM sj_late_rows('$id')").collect()
      assert(rows.map(_.getString(0).contains("late")).toSeq == Seq(true))
    }
  }

  test("sj_late_rows gives the late rows of a query, as a table and as a stream") {
    withConf("spark.streamjoin.lateRows" -> "keep") {
      running(job(sql(within))) { run =>
        run.feed(o("a", "10:00"), d("a", "10:00"))
        run.feed(o("b", "12:00"), d("b", "12:00"))
        run.feed(o("late", "09:00", 7))
        val call = s"sj_late_rows('${run.streaming.id}')"
        val table = spark.sql(s"SELECT input, row FROM $call")
        assert(table.collect().map(_.getString(1)).toSeq.map(_.contains("late")) == Seq(true))
        assert(table.collect().map(_.getString(0)).toSeq == Seq("o"))
        // 4.1 cannot parse STREAM before a function.
        def stream = spark.sql(s"SELECT input, row FROM STREAM $call")
        if (SparkTest.isSpark41) intercept[ParseException](stream)
        else assert(stream.isStreaming)
        def asked(second: String) =
          spark.sql(s"SELECT input FROM sj_late_rows('${run.streaming.id}', $second)")
        assert(asked("true").isStreaming)
        assert(!asked("false").isStreaming)
        val rejected = intercept[AnalysisException](asked("1"))
        assert(rejected.getCondition == "STREAMJOIN_TABLE_FUNCTION.ARGUMENT")
        assert(rejected.getMessage.contains("whether it is a stream, true or false, not 1"))
        assert(
          StreamJoin.lateRows(run.streaming).columns.toSeq.contains("watermark")
        )
      }
    }
  }

  test("a user's function takes precedence over ours of the same name") {
    views
    spark.sql("CREATE TEMPORARY FUNCTION sj_bounds(x INT) RETURNS TABLE (n INT) RETURN SELECT x + 1")
    try assert(spark.sql("SELECT n FROM sj_bounds(1)").collectAsList().asScala.map(_.getInt(0)) == Seq(2))
    finally spark.sql("DROP TEMPORARY FUNCTION sj_bounds")
    intercept[AnalysisException](spark.sql("SELECT n FROM sj_bounds(1)"))
  }
}
