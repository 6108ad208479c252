package org.apache.spark.sql.streamjoin.joins.temporal

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.catalyst.parser.CatalystSqlParser
import org.apache.spark.sql.catalyst.plans.logical.AsOfJoin
import org.apache.spark.sql.streamjoin.{JoinTest, SqlTest}
import org.apache.spark.sql.{AnalysisException, DataFrame}

/**
 * `ASOF JOIN` in SQL, which Spark 4.3 has for batches and we for streams: whether Spark's parser
 * reads it (its setting is on) or ours, the inputs decide whose join it is.
 */
class SqlAsOfJoinSuite extends AnyFunSuite with TemporalTest with SqlTest {
  import JoinTest._

  private val Enabled = "spark.sql.join.asofJoin.enabled"

  private val rows = Seq(o("a", "10:10", 1), o("b", "10:20", 2), d("a", "10:07", 3), d("a", "10:03", 4))

  private def batches(): Unit = {
    spark
      .sql(
        "SELECT id, TIMESTAMP '2024-06-01 10:00:00' + make_dt_interval(0, 0, m) AS t, n, v " +
          "FROM VALUES ('a', 10, 1, 1), ('b', 20, 1, 2) AS (id, m, n, v)"
      )
      .createOrReplaceTempView("bo")
    spark
      .sql(
        "SELECT id, TIMESTAMP '2024-06-01 10:00:00' + make_dt_interval(0, 0, m) AS t, n, v " +
          "FROM VALUES ('a', 7, 1, 3), ('a', 10, 0, 4), ('a', 10, 2, 5) AS (id, m, n, v)"
      )
      .createOrReplaceTempView("bd")
  }

  private def isOurs(frame: DataFrame) = frame.queryExecution.analyzed.exists(_.isInstanceOf[StreamAsOfJoin])
  private def isSparks(frame: DataFrame) = frame.queryExecution.analyzed.exists(_.isInstanceOf[AsOfJoin])

  for {
    enabled <- Seq("false", "true")
    on <- Seq("ON o.id = d.id", "USING (id)")
    join <- Seq("ASOF", "LEFT ASOF")
  } test(s"two streams, $join, $on, $Enabled=$enabled") {
    withConf(Enabled -> enabled) {
      val text = s"SELECT o.v AS a, d.v AS b FROM o $join JOIN d MATCH_CONDITION (o.t >= d.t) $on"
      running(job(sql(text))) { job =>
        val seen = job.feed(rows: _*) ++ job.feed(end("14:00"): _*)
        assert(seen.sorted == Seq("1 3") ++ Option.when(join == "LEFT ASOF")("2 -"))
      }
      assert(isOurs(spark.sql(text)))
    }
  }

  test("the operands are in either order, and equal times count or not, with Spark's parser too") {
    withConf(Enabled -> "true") {
      views
      Seq("o.t > d.t", "d.t < o.t", "d.t <= o.t").foreach { condition =>
        val frame = spark.sql(s"SELECT o.v FROM o ASOF JOIN d MATCH_CONDITION ($condition) ON o.id = d.id")
        assert(isOurs(frame) && !isSparks(frame), condition)
        val rule = frame.queryExecution.analyzed.collectFirst { case join: StreamAsOfJoin => join.rule }.get
        assert(rule.allowsExact == condition.contains("="), condition)
      }
      val later = intercept[AnalysisException] {
        spark.sql("SELECT o.v FROM o ASOF JOIN d MATCH_CONDITION (o.t <= d.t) ON o.id = d.id")
      }
      assert(later.getCondition == "STREAMJOIN_TEMPORAL.NO_TOLERANCE")
      val structures = intercept[AnalysisException] {
        spark.sql("SELECT o.v FROM o ASOF JOIN d MATCH_CONDITION ((o.t, o.v) >= (d.t, d.v)) ON o.id = d.id")
      }
      assert(structures.getCondition == "STREAMJOIN_TEMPORAL.TIMES", structures.getMessage)
    }
  }

  private val ofBatches =
    "SELECT bo.v AS a, bd.v AS b FROM bo ASOF JOIN bd MATCH_CONDITION (%s) ON bo.id = bd.id"

  test("two batches are Spark's: its rows with its setting, its rejection without") {
    batches()
    withConf(Enabled -> "true") {
      val times = spark.sql(ofBatches.format("bo.t > bd.t"))
      assert(isSparks(times) && !isOurs(times))
      assert(times.collect().map(text).toSeq == Seq("1 3"))
      val structures = spark.sql(ofBatches.format("(bo.t, bo.n) >= (bd.t, bd.n)"))
      assert(structures.collect().map(text).toSeq == Seq("1 4"))
    }
    withConf(Enabled -> "false") {
      val condition = "bo.t > bd.t"
      val sparks = intercept[AnalysisException](CatalystSqlParser.parsePlan(ofBatches.format(condition)))
      val error = intercept[AnalysisException](spark.sql(ofBatches.format(condition)))
      assert(error.getCondition == "UNSUPPORTED_FEATURE.ASOF_JOIN")
      assert(error.getSqlState == sparks.getSqlState)
      assert(error.getMessageParameters == sparks.getMessageParameters)
    }
  }

  // WITHIN is ours alone, so Spark's parser rejects the text.
  for (within <- Seq("", "WITHIN 5m "))
    test(s"a text with an as-of join of streams and one of batches $within") {
      batches()
      views
      val streams =
        s"SELECT o.v AS a, d.v AS b FROM o ASOF JOIN d MATCH_CONDITION (o.t >= d.t) ${within}ON o.id = d.id"
      Seq("(bo.t, bo.n) >= (bd.t, bd.n)" -> Seq(1 -> 4), "bo.t > bd.t" -> Seq(1 -> 3)).foreach {
        case (condition, expected) =>
          val text = s"SELECT s.a, x.b FROM ($streams) s JOIN (${ofBatches.format(condition)}) x ON s.a = x.a"
          withConf(Enabled -> "true") {
            val both = spark.sql(text)
            assert(isOurs(both) && isSparks(both), both.queryExecution.analyzed)
            running(job(sql(text))) { job =>
              val seen = job.feed(rows: _*) ++ job.feed(end("14:00"): _*)
              assert(seen == expected.map { case (a, b) => s"$a $b" })
            }
          }
          withConf(Enabled -> "false") {
            val error = intercept[AnalysisException](spark.sql(text))
            assert(error.getCondition == "UNSUPPORTED_FEATURE.ASOF_JOIN", error.getMessage)
          }
      }
    }

  // With MATCH_CONDITION last, which Spark's parser rejects.
  test("batches in our order of the clauses: USING, and WITHIN, which Spark's join has not") {
    batches()
    withConf(Enabled -> "true") {
      val using =
        "SELECT id, bo.v AS a, bd.v AS b FROM bo ASOF JOIN bd USING (id) MATCH_CONDITION (bo.t > bd.t)"
      val frame = spark.sql(using)
      assert(isSparks(frame))
      assert(frame.collect().map(text).toSeq == Seq("a 1 3"))
      val error = intercept[AnalysisException](spark.sql(s"$using WITHIN 5m"))
      assert(error.getCondition == "STREAMJOIN_CLAUSE.ASOF_LIMIT_IN_BATCH", error.getMessage)
    }
  }
}
