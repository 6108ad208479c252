package org.apache.spark.sql.streamjoin.joins.interval

import java.sql.Timestamp

import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.functions._
import org.apache.spark.sql.streamjoin.analysis.RowConstraintsOf
import org.apache.spark.sql.streamjoin.{JoinTest, SparkTest}
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.{DataFrame, Row}

import streamjoin.core.{JoinType, Side}

/**
 * Joins with a windowed aggregation, bounded by the start and the end of its windows. Random traces
 * without late rows are compared with Spark's batch join.
 */
class WindowBoundsSuite extends AnyFunSuite with JoinTest {
  import JoinTest._

  private type Inputs = String => DataFrame

  /** The highest value of each window and id, as `m`. */
  private def highest(of: DataFrame, length: String, slide: Option[String] = None): DataFrame =
    of.groupBy(slide.fold(window(col("t"), length))(window(col("t"), length, _)).as("w"), col("id"))
      .agg(max("v").as("v"))

  private val tumbling = (inputs: Inputs) => highest(inputs("o"), "10 minutes")
  private val sliding = (inputs: Inputs) => highest(inputs("o"), "10 minutes", Some("5 minutes"))
  private val columns = (inputs: Inputs) =>
    tumbling(inputs).selectExpr("id", "v", "w.start AS since", "w.end AS until")
  private val grouped = (inputs: Inputs) =>
    inputs("o")
      .groupBy(window(col("t"), "10 minutes").as("w"), col("id"))
      .agg(max("v").as("v"))
      .selectExpr(
        "id",
        "v",
        "w.start + INTERVAL 1 MINUTE AS since",
        "window_time(w) AS wt",
        "w.end AS last"
      )
  private val ofTwoLengths = (inputs: Inputs) =>
    tumbling(inputs).union(highest(inputs("o"), "5 minutes")).selectExpr("id", "v", "w")

  private val sessions = (inputs: Inputs) =>
    inputs("o").groupBy(session_window(col("t"), "10 minutes").as("w"), col("id")).agg(max("v").as("v"))

  private case class Case(windows: Inputs => DataFrame, condition: String) {
    def joined(inputs: Inputs, how: String): DataFrame =
      windows(inputs).as("m").join(inputs("d"), expr(condition), how)
  }

  private val cases = Seq(
    Case(tumbling, "m.id = d.id AND d.t BETWEEN m.w.start AND m.w.end"),
    Case(tumbling, "m.id = d.id AND d.t >= m.w.end - INTERVAL 10 MINUTES AND d.t < m.w.end"),
    Case(tumbling, "m.id = d.id AND d.t BETWEEN m.w.start - INTERVAL 5 MINUTES AND m.w.start"),
    Case(
      tumbling,
      "m.id = d.id AND d.t BETWEEN window_time(m.w) - INTERVAL 10 MINUTES AND window_time(m.w)"
    ),
    Case(tumbling, "d.t >= m.w.start AND d.t < m.w.end AND m.v <= d.v"),
    Case(sliding, "m.id = d.id AND d.t BETWEEN m.w.start AND m.w.end AND m.v > d.v"),
    Case(columns, "m.id = d.id AND d.t >= m.since AND d.t <= m.until"),
    Case(grouped, "m.id = d.id AND d.t >= m.since AND d.t <= m.wt AND d.t < m.last"),
    Case(ofTwoLengths, "m.id = d.id AND d.t > m.w.start AND d.t <= m.w.end"),
    // Values that each window carries, or each row of the other side.
    Case(tumbling, "m.id = d.id AND d.t <= m.w.end AND m.w.end <= d.t + d.v * INTERVAL 1 MINUTE"),
    Case(tumbling, "m.id = d.id AND d.t >= m.w.start AND d.t < m.w.end + m.v * INTERVAL 1 MINUTE"),
    Case(
      sessions,
      "m.id = d.id AND d.t > m.w.end - INTERVAL 1 HOUR AND d.t <= m.w.start + m.v * INTERVAL 1 MINUTE"
    ),
    Case(
      sliding,
      "d.t >= m.w.start AND d.t <= m.w.end + m.v * INTERVAL 1 MINUTE AND d.t <= m.w.end + INTERVAL 15 MINUTES"
    )
  )

  /** The rows of two streams, up to two minutes out of order. */
  private class Story(seed: Int, val of: Case, val joinType: JoinType) {
    override def toString: String = s"seed $seed, ${joinType.name}: ${of.condition}"

    private val random = new Random(seed * 31L + cases.indexOf(of) * 7 + joinType.name.hashCode)
    private var now = 0

    val batches: Seq[Seq[(String, Row)]] = Seq.fill(6) {
      now += random.nextInt(9)
      Seq("o", "d").flatMap(name => Seq.fill(random.nextInt(8))(name -> row()))
    }

    private def row(): Row = {
      def rarely = random.nextInt(20) == 0
      val millis =
        at("10:00").getTime + now * 60000L - Seq(0, 60000, random.nextInt(120000))(random.nextInt(3))
      Row(
        if (rarely) null else s"k${random.nextInt(3)}",
        if (rarely) null else new Timestamp(millis),
        random.nextInt(30)
      )
    }

    val restart: Int = random.nextInt(6)
  }

  private val End = 7777
  private def ends(time: String): Seq[(String, Row)] = Seq(o("end o", time, End), d("end d", time, -End))

  private val all = for {
    seed <- 1 to SparkTest.seedsOf(cases.size * JoinType.all.size)
    of <- cases
    joinType <- JoinType.all
  } yield new Story(seed, of, joinType)

  testAll[Story](SparkTest.part(all, every = 22), _.toString) { story =>
    val query = (streams: Streams) => story.of.joined(streams.marked(_, "2 minutes"), story.joinType.name)
    running(job(query)) { job =>
      story.batches.zipWithIndex.foreach { case (rows, number) =>
        job.feed(rows: _*)
        if (number == story.restart) job.restart()
      }
      Seq("18:00", "20:00", "22:00").foreach(time => job.feed(ends(time): _*))
      val seen = withoutClosingRows(job.seen.flatMap(_.rows), End.toString, (-End).toString).sorted
      assert(seen == expected(story))
      assert(job.dropped == 0)
      val (left, right) = job.state
      assert(left + right <= 6, "expired rows must leave the state")
    }
  }

  private def expected(story: Story): Seq[String] = {
    def input(name: String): DataFrame = {
      val rows = story.batches.flatten.collect { case (`name`, row) => row }
      spark.createDataFrame(spark.sparkContext.parallelize(rows), StructType.fromDDL(Events)).as(name)
    }
    story.of.joined(input, story.joinType.name).collect().map(text(_: Row)).sorted.toSeq
  }

  test("a row leaves with the window that it can match, and a window once no match can arrive") {
    val query = (streams: Streams) =>
      cases.head.joined(streams.marked(_), "left_outer").selectExpr("m.id", "m.v", "d.v")
    running(job(query)) { job =>
      job.feed(o("a", "10:01", 1), o("a", "10:02", 2), o("b", "10:02", 3), d("a", "10:05", 4))
      assert(job.feed(o("x", "10:09"), d("a", "10:09", 5)) == Seq(), "the window is open")
      assert(job.state == ((0, 2)))
      // Spark's watermark of 10:10 closes the window; deliveries may still come until 10:10.
      assert(job.feed(o("x", "10:10"), d("a", "10:10", 6)) == Seq("a 2 4", "a 2 5", "a 2 6"))
      assert(job.feed(d("y", "10:30"), o("y", "10:30")) == Seq("b 3 -", "x 0 -", "x 0 -"))
      assert(job.dropped == 0)
    }
  }

  // What is accepted, and in which words.

  private lazy val streams = newStreams()

  private def joined(of: Case): DataFrame = of.joined(streams.marked(_), "inner")

  private def bounds(frame: DataFrame): Seq[(String, String, String)] = BoundsOfQuery
    .rows(frame.queryExecution.analyzed, spark)
    .map(row => (row.getString(1), row.getString(4), row.getString(5)))

  test("sj.bounds shows the end of the window") {
    val shown =
      Seq(
        ("left", "d.t <= left.w.end", "left kept 0 seconds"),
        ("right", "left.w.end <= d.t + 10 minutes", "d kept 10 minutes")
      )
    assert(bounds(joined(cases.head)) == shown)
    // The optimizer leaves only the end of the window.
    val unnamed = (inputs: Inputs) => tumbling(inputs).withColumnRenamed("w", "window")
    val byEnd =
      Case(unnamed, "m.id = d.id AND d.t BETWEEN m.window.end - INTERVAL 10 MINUTES AND m.window.end")
    assert(
      bounds(joined(byEnd).selectExpr("m.v", "d.v")).map(_._2) == shown.map(_._2.replace(".w.", ".window."))
    )
    running(job(streams => byEnd.joined(streams.marked(_), "inner").selectExpr("m.v", "d.v"))) { job =>
      job.feed(ends("10:00"): _*)
      val words = job.joins.head.verboseStringWithOperatorId()
      assert(words.contains("window.end") && !words.contains("_extract_"), words)
    }
  }

  test("sj.bounds shows the end of the window next to a value that the other row carries") {
    val of = Case(
      tumbling,
      "m.id = d.id AND d.t <= m.w.end AND m.w.end <= d.t + d.v * INTERVAL 1 MINUTE"
    )
    assert(bounds(joined(of)).map(_._2).exists(_.startsWith("left.w.end <= d.t + ")), bounds(joined(of)))
  }

  test("the start and the end as columns are one time") {
    val join = joins(joined(cases(6))).head
    assert(join.times.map(_.name) == Seq("until", "t"))
    assert(bounds(joined(cases(6))).map(_._2) == Seq("d.t <= left.until", "left.until <= d.t + 10 minutes"))
    assert(joins(joined(cases(7))).head.times.map(_.name) == Seq("wt", "t"))
  }

  test("in a union, the longest window counts") {
    val longest = Case(ofTwoLengths, cases.head.condition)
    assert(bounds(joined(longest)).map(_._3) == Seq("left kept 0 seconds", "d kept 10 minutes"))
  }

  test("the start of a session is at no constant distance, and its end is a time") {
    val within = Case(sessions, "m.id = d.id AND d.t BETWEEN m.w.start AND m.w.end")
    val error = rejection(joined(within))
    assert(error.getCondition == "STREAMJOIN_BOUND_NOT_CONSTANT", error.getMessage)
    assert(error.getMessage.contains("m.w.start is the start of a window"), error.getMessage)
    assert(error.getMessageParameters.get("side") == "right")
    val rewrite = error.getMessageParameters.get("rewrite")
    assert(rewrite.endsWith("d.t >= m.w.end - INTERVAL 1 HOUR"), rewrite)
    assert(joins(joined(within.copy(condition = s"${within.condition} AND $rewrite"))).size == 1)
  }

  private def matches(of: Case, rows: Seq[(String, Row)]*): Seq[String] =
    running(job(streams => of.joined(streams.marked(_), "inner").selectExpr("m.v", "d.v"))) { job =>
      rows.foreach(some => job.feed(some: _*))
      job.seen.flatMap(_.rows).toSeq
    }

  test("the start of a session is carried by its row") {
    val before = Case(
      sessions,
      "m.id = d.id AND d.t >= m.w.end - INTERVAL 1 HOUR AND d.t <= m.w.start"
    )
    assert(joins(joined(before)).head.plan.carried.map(_.side) == Seq(Side.Left))
    val found = matches(
      before,
      Seq(o("a", "10:01", 1), o("a", "10:09", 2), d("a", "10:00", 3), d("a", "10:02", 4)),
      ends("11:00"),
      ends("13:00")
    )
    assert(found == Seq("2 3"))
  }

  test("a lifetime counts from the last instant of a window, also if the end cannot be computed") {
    val ending = "d.t <= m.w.end + CAST(60 / m.v AS INT) * INTERVAL 1 MINUTE"
    def found(more: String = "true"): Seq[String] = matches(
      Case(tumbling, s"m.id = d.id AND d.t >= m.w.start AND $ending AND $more"),
      Seq(o("a", "10:01", 1), o("b", "10:01")),
      Seq(o("x", "10:12"), d("x", "10:12")),
      Seq(d("a", "10:30", 30)),
      Seq(d("a", "10:50", 50))
    )
    assert(found() == Seq("1 30", "1 50"))
    assert(found("d.t <= m.w.end + INTERVAL 30 MINUTES") == Seq("1 30"))
    withConf("spark.streamjoin.beyondMaxLifetime" -> "cut", "spark.streamjoin.maxLifetime" -> "30m") {
      assert(found() == Seq("1 30"))
    }
  }

  test("equal sliding windows leave by the watermark of their time, if that has one") {
    def query(time: String)(streams: Streams) = {
      def windowed(name: String) = streams
        .marked(name)
        .withColumn("window", window(expr(time), "10 minutes", "5 minutes"))
        .as(name)
      windowed("o").join(windowed("d"), expr("o.id = d.id AND o.window = d.window")).selectExpr("o.v", "d.v")
    }
    running(job(query("t - INTERVAL 1 HOUR"))) { job =>
      assert(job.feed(o("a", "10:00", 1), d("a", "10:00", 2)) == Seq("1 2", "1 2"))
      assert(job.feed(o("a", "10:06", 3), d("b", "10:06", 4)) == Seq("3 2"))
      assert(job.dropped == 0)
      job.feed(o("x", "11:00"), d("y", "11:00"))
      assert(job.state == ((2, 2)))
    }
    val error = rejection(query("least(t - INTERVAL 1 HOUR, t)")(streams))
    assert(error.getCondition == "STREAMJOIN_NO_WATERMARK", error.getMessage)
  }

  test("a window of another time is as far from a column as that time") {
    val plan = streams
      .marked("o")
      .selectExpr("t", "window(t - INTERVAL 1 HOUR, '10 minutes') AS w")
      .queryExecution
      .analyzed
    val (t, w) = (plan.output.head.exprId, plan.output(1).exprId)
    val known = RowConstraintsOf(plan)
    val minute = 60000000L
    assert(known.maxLagMicros(w, t).contains(60 * minute))
    assert(known.maxLagMicros(t, w).contains(-50 * minute - 1))
  }

  testLong("a struct with a start and an end that is no window is carried by its row") {
    val structs = (inputs: Inputs) =>
      inputs("o").selectExpr(
        "id",
        "t",
        "v",
        "named_struct('start', t, 'end', t + v * INTERVAL 1 MINUTE) AS w"
      )
    val of = Case(structs, "m.id = d.id AND d.t BETWEEN m.t AND m.w.end")
    assert(joins(joined(of)).head.plan.carried.map(_.side) == Seq(Side.Left))
    assert(
      rejection(joined(Case(structs, "m.id = d.id AND d.t BETWEEN m.w.start AND m.t"))).getCondition
        .startsWith("STREAMJOIN_")
    )
    val found = matches(
      of,
      Seq(o("a", "10:00", 5), o("a", "10:00", 60)),
      Seq(d("a", "10:05", 1)),
      Seq(d("a", "10:06", 2), d("a", "11:00", 3))
    )
    assert(found.sorted == Seq("5 1", "60 1", "60 2", "60 3"))
  }

  test("a join that constants bound keeps the layout of its state") {
    val timed =
      (inputs: Inputs) => tumbling(inputs).selectExpr("*", "window_time(w) AS wt", "w.start AS since")
    val constant = "m.id = d.id AND d.t BETWEEN m.wt - INTERVAL 1 HOUR AND m.wt"
    def layout(condition: String): Any = {
      val join = joins(joined(Case(timed, condition))).head
      (join.times.map(_.name), join.plan.bounds.tightest, join.plan.bounds.bounded(Side.Left))
    }
    assert(
      layout(s"$constant AND d.t >= m.w.start AND d.t <= m.w.end AND d.t >= m.since") == layout(constant)
    )
  }

  test("the error for a join without a bound shows one by the end of the window") {
    val error = rejection(joined(Case(tumbling, "m.id = d.id")))
    assert(error.getCondition == "STREAMJOIN_UNBOUNDED")
    val rewrite = error.getMessageParameters.get("rewrite")
    assert(rewrite == "d.t BETWEEN m.w.end - INTERVAL 1 HOUR AND m.w.end + INTERVAL 1 HOUR")
    assert(joins(joined(Case(tumbling, s"m.id = d.id AND $rewrite"))).size == 1)
  }
}
