package org.apache.spark.sql.streamjoin.evolve

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.functions.expr
import org.apache.spark.sql.streamjoin.JoinTest.{Job, Streams, at, d, o}
import org.apache.spark.sql.streamjoin.base.StreamJoinConf
import org.apache.spark.sql.streamjoin.{Frames, SparkTest}
import org.apache.spark.sql.{AnalysisException, DataFrame, Row}

import streamjoin.core.Side

/** Columns change in each kind of operator, and in chains of them. */
class RewrittenKindsSuite extends AnyFunSuite with EvolutionTest {

  /**
   * The inputs of a query.
   *
   * @param more
   *   whether they have another column, which is `v` times 1000
   */
  private case class Inputs(more: Boolean, v: String) {
    def apply(streams: Streams, name: String): DataFrame = {
      val columns = Seq("id", "t", s"CAST(v AS $v) AS v") ++ Option.when(more)("v * 1000 AS more")
      streams.marked(name).selectExpr(columns: _*).as(name)
    }

    /** `v`, which rows from before the column was added have alone. */
    def shown(alias: String): String =
      if (more) s"IF($alias.more <> $alias.v * 1000, -777, $alias.v)" else s"$alias.v"

    def select(joined: DataFrame): DataFrame = joined.selectExpr(s"${shown("o")} AS a", s"${shown("d")} AS b")
  }

  private type Query = Inputs => Streams => DataFrame

  private def join(in: Inputs, streams: Streams, on: String = "o.id = d.id") =
    in(streams, "o").join(in(streams, "d"), expr(on), "left_outer")

  private val windows: Query = in =>
    streams => in.select(Frames.windows(join(in, streams), Map[Side, String](Side.Right -> "1 hour")))

  private val sorted: Query = in =>
    streams =>
      Frames
        .sorted(in(streams, "o"), "t")
        .as("o")
        .selectExpr(s"${in.shown("o")} AS a", s"${in.shown("o")} AS b")

  private def versions(history: Option[String]): Query = in =>
    streams => {
      val changes = in(streams, "d").withColumn("op", expr(Operation)).as("d")
      val joined = in(streams, "o").join(changes, expr("o.id = d.id"), "left_outer")
      in.select(Frames.temporal(joined, op = Some("op"), history = history))
    }

  private val closest: Query = in =>
    streams => in.select(Frames.asof(join(in, streams), "o.t >= d.t", Some("30 minutes")))

  private val chain: Query = in =>
    streams => {
      val below = join(in, streams, Hourly)
        .selectExpr("o.id AS id", "o.t AS t", s"${in.shown("o")} AS a", s"${in.shown("d")} AS b")
        .as("f")
      val above = "f.id = e.id AND e.t BETWEEN f.t AND f.t + INTERVAL 1 HOUR"
      below
        .join(in(streams, "e"), expr(above), "left_outer")
        .selectExpr("a", "b", s"${in.shown("e")} AS c")
    }

  private val carried: Query = in =>
    streams => {
      val until = "d.t <= o.t + CAST(o.v % 50 AS INT) * INTERVAL 1 MINUTE"
      in.select(join(in, streams, s"o.id = d.id AND d.t >= o.t AND $until"))
    }

  private val queries = Seq[(String, Query)](
    "join with a carried bound" -> carried,
    "window join" -> windows,
    "rows in order" -> sorted,
    "temporal join" -> versions(None),
    "temporal join with a history" -> versions(Some("1 hour")),
    "as-of join" -> closest,
    "chain" -> chain
  )

  private val noData = "spark.sql.streaming.noDataMicroBatches.enabled" -> "false"

  private val ids = Seq("a", "b", "c")

  /** Each batch is half an hour later than the one before. Some versions are deleted. */
  private def fed(job: Job, batch: Int, inputs: Set[String]): Seq[String] = {
    def time(minute: Int) = {
      val all = 600 + 30 * batch + minute
      f"${all / 60}%02d:${all % 60}%02d"
    }
    val all: Seq[(String, Row)] = ids.zipWithIndex.flatMap { case (id, at) =>
      val v = 10 * batch + at + 1
      Seq(o(id, time(7 * at), v), "e" -> o(id, time(5 * at), v)._2) ++
        Option.when((batch + at) % 3 != 0)(d(id, time(4 * at), if ((batch + at) % 4 == 0) -v else v))
    }
    val end = if (batch < 8) Nil else Seq("o", "d", "e").map(_ -> o(s"end", "23:00", 999)._2)
    job.feed((all ++ end).filter(row => inputs(row._1)): _*)
  }

  for ((name, query) <- SparkTest.part(queries, every = 8, from = 6)) test(name) {
    val inputs = name match {
      case "chain" => Set("o", "d", "e")
      case "rows in order" => Set("o")
      case _ => Set("o", "d")
    }
    val first = Inputs(more = false, "INT")
    // What decides when a row leaves must not change.
    val wide = if (name == "join with a carried bound") "INT" else "BIGINT"
    val expected = running(job(query(first)))(job => (0 until 9).map(fed(job, _, inputs)))
    assert(expected.count(_.nonEmpty) > 4)
    val old = job(query(first))
    var found = running(old)(job => (0 until 3).map(fed(job, _, inputs)))
    val later = Seq(
      (first.copy(more = true), 3 until 5, "3"),
      (first.copy(v = wide), 5 until 7, "2"),
      (first.copy(more = true, v = wide), 7 until 9, "2")
    )
    later.foldLeft(old) { case (before, (inputsNow, batches, partitions)) =>
      val next = before.successor(query(inputsNow))
      withConf(Evolve -> "exact", StreamJoinConf.Partitions.key -> partitions) {
        found ++= running(next)(job => batches.map(fed(job, _, inputs)))
      }
      next
    }
    assert(found == expected)
  }

  /** Orders stay as many minutes as they say. They wait for a row of `e`, too. */
  private def staying(times: String*)(streams: Streams): DataFrame = {
    val orders = streams.marked("o").selectExpr(Seq("id", "v") ++ times: _*).as("o")
    val until = "d.t <= o.t + o.v * INTERVAL 1 MINUTE"
    orders
      .join(streams.marked("d"), expr(s"o.id = d.id AND d.t >= o.t AND $until"))
      .selectExpr("o.id AS id", "o.t AS t", "o.w AS w", "o.v AS a", "d.v AS b")
      .as("f")
      .join(streams.marked("e"), expr("f.id = e.id AND e.t BETWEEN f.t AND f.t + INTERVAL 1 HOUR"))
      .selectExpr("IF(w < f.t, a, -1) AS a", "b", "e.v AS c")
  }

  test("rows that stay long are not late above a join whose times are in another order, after a restart") {
    withConf(noData, Evolve -> "exact") {
      val earlier = "t - INTERVAL 10 HOURS AS w"
      val old = job(staying("t", earlier))
      running(old) { job =>
        job.feed(o("a", "10:00", 600), d("-", "10:00"), "e" -> o("-", "10:00")._2)
        (0 until 2).foreach(_ => job.feed(o("-", "15:00", 1)))
      }
      val next = old.successor(staying(earlier, "t"))
      running(next)(_.feed(d("-", "10:01")))
      running(next) { job =>
        assert(job.feed(d("a", "15:30", 2), "e" -> o("a", "10:30", 3)._2) == Seq("600 2 3"))
        assert(job.dropped == 0)
      }
    }
  }

  testLong("how far rows have come is not known by a column without a watermark") {
    def query(condition: String)(streams: Streams): DataFrame = {
      val changes = streams.marked("d").withColumn("op", expr(Operation)).as("d")
      val facts = Frames
        .temporal(streams.marked("o").join(changes, expr("o.id = d.id"), "left_outer"), op = Some("op"))
        .selectExpr("o.id AS id", "o.t AS t", "o.v AS a", "d.t AS since")
        .as("f")
      val bound = "e.t >= f.t AND e.t <= f.since + INTERVAL 1 HOUR"
      facts
        .join(streams.marked("e"), expr(s"f.id = e.id AND $bound AND $condition"), "left_outer")
        .selectExpr("a", "e.v AS b")
    }
    val old = job(query("f.a % 2 = 0"))
    running(old) { job =>
      job.feed(o("a", "10:00", 1), d("a", "10:00", 1))
      job.feed(o("a", "12:00", 3), d("a", "12:00", 1))
      job.feed(o("a", "13:00", 5), d("a", "13:00", 1)): Unit
    }
    val shown = streamjoin.StreamJoin.evolution(query("true")(newStreams()), old.checkpoint).collect()
    assert(shown.map(_.getAs[String]("state")).toSeq == Seq("rejected"), shown.mkString("; "))
  }

  testLong("a join that was taken over from Spark's own") {
    val query: Query = in => streams => in.select(join(in, streams, Hourly))
    val first = Inputs(more = false, "INT")
    def out(job: Job, batches: Range) = running(job)(job => batches.flatMap(fed(job, _, Set("o", "d"))))
    val expected = out(job(query(first)), 0 until 9)
    val old = job(query(first))
    val ofSpark = withConf("spark.streamjoin.enabled" -> "false")(out(old, 0 until 2))
    val ofOurs = withConf(Evolve -> "exact") {
      out(old, 2 until 4) ++ out(old.successor(query(first.copy(more = true))), 4 until 9)
    }
    assert((ofSpark ++ ofOurs).sorted == expected.sorted)
  }

  test("a column that decides the match of a version cannot be added") {
    val in = Inputs(more = true, "INT")
    val old = job(closest(Inputs(more = false, "INT")))
    running(old)(fed(_, 0, Set("o", "d")))
    withConf(Evolve -> "allow") {
      val needed: Streams => DataFrame = streams =>
        in.select(
          Frames.asof(join(in, streams, "o.id = d.id AND o.more > 0"), "o.t >= d.t", Some("30 minutes"))
        )
      val error = intercept[Exception](running(old.successor(needed))(fed(_, 1, Set("o", "d"))))
      val cause = Iterator.iterate[Throwable](error)(_.getCause).takeWhile(_ != null).collectFirst {
        case known: AnalysisException => known
      }
      assert(
        cause.map(_.getMessage).exists(_.contains("no more, which the condition or a filter needs")),
        cause
      )
    }
  }

  // Equalities.

  private val inHour = Some("1 hour")
  private val both = "o.id = d.id AND o.v = d.v"

  test("an equality is added to an as-of join with a tolerance") {
    val old = job(values(asof(tolerance = inHour)))
    running(old) { job =>
      job.feed(d("a", "10:00", 1), d("a", "10:10", 2), "d" -> Row("a", at("10:12"), null), o("a", "10:20", 1))
    }
    val next = old.successor(values(asof(on = both, tolerance = inHour)))
    withConf(Evolve -> "exact", StreamJoinConf.Partitions.key -> "3")(running(next) { job =>
      // The closest one of its id, by which it would have been joined, has another value.
      job.feed(o("a", "10:50", 2), o("a", "10:40", 3), d("a", "10:30", 3))
      // The one without a value matches nothing any longer.
      assert(job.state._2 == 3)
      assert(ended(job, "11:00", "13:00", "13:01") == Seq("1 1", "2 2", "3 3"))
    })
  }

  test("an equality cannot be added where only the newest version of each key is kept") {
    def isRejected(was: Streams => DataFrame, is: Streams => DataFrame, advice: String) = {
      val old = job(was)
      running(old)(_.feed(d("a", "10:00", 1), o("a", "10:20", 1)))
      withConf(Evolve -> "allow") {
        val error = startError(old, is)
        assert(error.getMessageParameters.get("what") == "equality")
        assert(error.getMessage.contains(advice), error.getMessage)
      }
    }
    isRejected(values(asof()), values(asof(on = both)), "only the newest version of each key is in state")
    val others = "keep the old equalities, to which more can be added"
    isRejected(values(asof(tolerance = inHour)), values(asof(on = "o.v = d.v", tolerance = inHour)), others)
    isRejected(values(asof(on = both, tolerance = inHour)), values(asof(tolerance = inHour)), others)
  }
}
