package org.apache.spark.sql.streamjoin.joins.interval

import org.scalatest.Assertion
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.functions.expr
import org.apache.spark.sql.streamjoin.observe.read.QueryFigures
import org.apache.spark.sql.streamjoin.{JoinTest, SparkTest}
import org.apache.spark.sql.{DataFrame, Row}

import streamjoin.core.JoinType

/** What a user sees of a join whose rows carry the time at which they leave. */
class CarriedWordsSuite extends AnyFunSuite with JoinTest {
  import CarriedBoundStories.Columns
  import JoinTest._

  private val Simple = "o.id = d.id AND d.t BETWEEN o.t AND o.until"
  private val NoEquality = "d.t BETWEEN o.t AND o.until"
  private val Both = "o.id = d.id AND d.t <= o.until AND o.t <= d.until"

  private def query(condition: String, how: String = "inner"): Streams => DataFrame = streams =>
    streams
      .marked("o")
      .join(streams.marked("d"), expr(condition), how)
      .selectExpr(
        (if (JoinType.named(how).get.filtered.isDefined) Seq("o.id AS a")
         else Seq("o.id AS a", "d.id AS b")): _*
      )

  private def order(id: String, time: String, until: String) = "o" -> Row(id, at(time), at(until), 1)
  private def delivery(id: String, time: String) = "d" -> Row(id, at(time), at(time), 1)

  /** Two orders, the later of which ends first, and a delivery that matches the other one. */
  private def feed(job: Job): Seq[String] =
    job.feed(order("a", "10:00", "11:00"), order("b", "10:01", "10:05"), delivery("x", "10:03"))

  private def inWords(of: DataFrame): Seq[String] = BoundsOfQuery
    .rows(of.queryExecution.analyzed, spark)
    .map(row => s"${row.getInt(0)} ${row.getString(2)} ${row.getString(4)}: ${row.getString(5)}")

  private def shown(job: Job, condition: String): Seq[String] = spark
    .sql(
      s"SELECT plan, rows_kept, oldest, leaves_by, leaves_after FROM sj_explain_analyze('${job.streaming.id}', false)"
    )
    .where(condition)
    .collect()
    .map(row => row.toSeq.map(value => Option(value).fold("-")(_.toString.trim)).mkString(" "))
    .toSeq

  private def inState(job: Job, side: String, operator: Int = 1): Seq[String] = {
    job.stop()
    val state =
      spark.read.format("streamjoin").option("checkpoint", job.checkpoint).option("operator", operator)
    val rows = state.option("side", side).load()
    rows
      .selectExpr(s"$side.id", s"$side.until", "leaves_by", "leaves_after", "matched")
      .orderBy("id")
      .collect()
      .map(text(_: Row))
      .toSeq
  }

  for (joinType <- SparkTest.part(JoinType.all, every = 3))
    test(s"${joinType.name}: bounds, plan, figures and state are in words") {
      val frame = query(Simple, joinType.name)
      assert(
        inWords(frame(newStreams(Columns))) == Seq(
          "1 d o.t <= d.t: d kept 0 seconds",
          "1 o d.t <= o.until: o kept until o.until, at most 30 days"
        )
      )
      running(job(frame, Columns)) { job =>
        feed(job)
        val plan = job.plan.toString
        assert(plan.contains("d.t <= o.until: o kept until o.until, at most 30 days"), plan)
        assert(plan.contains(joinType.name), plan)
        assert(
          shown(job, "operator = 1 AND side IS NOT NULL") == Seq(
            "left: o 2 2024-06-01T10:00:00Z d.t 2024-06-01T10:05:00Z",
            "right: d 1 2024-06-01T10:03:00Z o.t 2024-06-01T10:03:00Z"
          )
        )
        val why =
          spark.sql(s"SELECT why FROM sj_why('${job.streaming.id}', 'id = ''b''')").head().getString(0)
        assert(why.contains("It leaves once the watermark of d.t is later than 2024-06-01T10:05:00Z"), why)
        val matched = if (joinType.pads(streamjoin.core.Side.Left)) "false" else "-"
        assert(
          inState(job, "left") ==
            Seq(s"a 11:00 d.t 11:00 $matched", s"b 10:05 d.t 10:05 $matched")
        )
      }
    }

  test("a join without an equality, and one whose rows carry ends on both sides") {
    for (
      (condition, right) <- Seq(
        NoEquality -> "d kept 0 seconds",
        Both -> "d kept until d.until, at most 30 days"
      )
    ) {
      assert(inWords(query(condition)(newStreams(Columns))).exists(_.contains(right)))
      running(job(query(condition, "left_outer"), Columns)) { job =>
        feed(job)
        val plan = job.plan.toString
        Seq("o kept until o.until, at most 30 days", right).foreach(words =>
          assert(plan.contains(words), plan)
        )
        val left = shown(job, "operator = 1 AND side = 'left'")
        assert(left == Seq("left: o 2 2024-06-01T10:00:00Z d.t 2024-06-01T10:05:00Z"))
        assert(inState(job, "left").map(_.take(16)) == Seq("a 11:00 d.t 11:0", "b 10:05 d.t 10:0"))
      }
    }
  }

  test("cut and keep are in words, too") {
    withConf("spark.streamjoin.beyondMaxLifetime" -> "cut", "spark.streamjoin.maxLifetime" -> "10m") {
      assert(
        inWords(query(Simple)(newStreams(Columns)))
          .contains("1 o d.t <= o.until: o kept until o.until, cut off after 10 minutes")
      )
      running(job(query(Simple, "left_outer"), Columns)) { job =>
        feed(job)
        val plan = job.plan.toString
        assert(plan.contains("cut off after 10 minutes") && !plan.contains("microseconds"), plan)
        assert(shown(job, "side = 'left'") == Seq("left: o 2 2024-06-01T10:00:00Z d.t 2024-06-01T10:05:00Z"))
        assert(inState(job, "left") == Seq("a 11:00 d.t 10:10 false", "b 10:05 d.t 10:05 false"))
      }
    }
    withConf("spark.streamjoin.beyondMaxLifetime" -> "keep") {
      assert(
        inWords(query(Simple)(newStreams(Columns))) == Seq(
          "1 d o.t <= d.t: d kept 0 seconds",
          "1 o d.t <= o.until: o kept until o.until, without a limit",
          "1 o none: o.t has no watermark in the output of this join"
        )
      )
      running(job(query(Simple, "left_outer"), Columns)) { job =>
        feed(job)
        assert(shown(job, "side = 'left'") == Seq("left: o 2 - d.t 2024-06-01T10:05:00Z"))
        val columns = spark
          .sql(
            s"SELECT watermarks.column FROM sj_explain_analyze('${job.streaming.id}', false) WHERE side = 'left'"
          )
          .head()
          .getSeq[String](0)
        assert(columns == Seq("o.t"))
        assert(inState(job, "left") == Seq("a 11:00 d.t 11:00 false", "b 10:05 d.t 10:05 false"))
      }
    }
  }

  test("a chain says by which join a row is kept, and until when") {
    val chain: Streams => DataFrame = streams =>
      streams
        .marked("o")
        .join(streams.marked("d"), expr(Simple))
        .selectExpr("o.id", "o.t", "d.t AS s", "o.until")
        .as("f")
        .join(streams.marked("e"), expr("f.id = e.id AND e.t BETWEEN f.s AND f.until"), "left_outer")
        .selectExpr("f.id", "e.id")
    val bounds = inWords(chain(newStreams(Columns)))
    assert(bounds.contains("1 o d.t <= o.until: o kept until o.until, at most 30 days"), bounds)
    assert(bounds.exists(_.startsWith("2 d e.t <= d.until: d kept until d.until, at most 30 days")), bounds)
    running(job(chain, Columns)) { job =>
      feed(job)
      job.feed(delivery("a", "10:04"))
      assert(job.plan.toString.split("at most 30 days").length == 3, job.plan)
      assert(shown(job, "side = 'left'").exists(_.endsWith("d.t 2024-06-01T10:05:00Z")))
      assert(inState(job, "left", operator = 2).nonEmpty)
    }
  }

  /** Hints follow event times, not by the ends. */
  private def hints(job: Job): Seq[String] = spark
    .sql(s"SELECT explode(hints) FROM sj_explain_analyze('${job.streaming.id}', false)")
    .collect()
    .map(_.getString(0))
    .toSeq

  private def advised(rows: Seq[(String, Row)])(check: (QueryFigures, Seq[String]) => Assertion): Assertion =
    running(job(query(Simple, "left_outer"), Columns)) { job =>
      job.feed(rows: _*)
      check(QueryFigures.of(job.execution).get, hints(job))
    }

  test("hints about distances know that rows carry their ends") {
    val (orders, deliveries) = (1 to 20).map { n =>
      (order(s"k$n", "10:00", "10:10"), delivery(s"k$n", "10:05"))
    }.unzip
    advised(orders ++ deliveries) { (figures, hints) =>
      val operator = figures.all.head
      assert(operator.outline.inputs.map(operator.carriesEnds) == Seq(true, false))
      assert(operator.pairOfColumns.contains(("o.t", "d.t")))
      assert(operator.allowed.map(_.lowest) == Some(Some(0L)))
      assert(operator.allowed.flatMap(_.highest) == Some(30L * 86400000))
      assert(hints.isEmpty, hints)
    }
    // The right rows are too early: the condition is written the wrong way round.
    advised(orders ++ (1 to 20).map(n => delivery(s"k$n", "09:58"))) { (_, hints) =>
      assert(hints.exists(_.contains("d.t is about 2 minutes earlier than o.t")), hints)
    }
  }
}
