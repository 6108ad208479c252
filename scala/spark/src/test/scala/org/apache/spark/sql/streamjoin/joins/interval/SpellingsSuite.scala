package org.apache.spark.sql.streamjoin.joins.interval

import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.prop.TableDrivenPropertyChecks

import org.apache.spark.sql.functions._
import org.apache.spark.sql.streamjoin.{JoinTest, SparkTest}
import org.apache.spark.sql.{AnalysisException, Column, DataFrame}

import streamjoin.StreamJoin
import streamjoin.core.Side

/** Every way to write a time bound: its value in microseconds, and that the join runs as ours. */
class SpellingsSuite extends AnyFunSuite with SpellingsTest with TableDrivenPropertyChecks {
  import JoinTest._

  test("every comparison operator bounds the join, in either direction") {
    val table = Table[String, Long, Long](
      ("condition", "orders kept", "deliveries kept"),
      ("d.t >= o.t AND d.t <= o.t + INTERVAL 1 HOUR", Hour, 0),
      ("o.t <= d.t AND o.t + INTERVAL 1 HOUR >= d.t", Hour, 0),
      ("d.t > o.t AND d.t < o.t + INTERVAL 1 HOUR", Hour - 1, -1),
      ("o.t < d.t AND o.t + INTERVAL 1 HOUR > d.t", Hour - 1, -1),
      ("d.t BETWEEN o.t AND o.t + INTERVAL 1 HOUR", Hour, 0),
      ("o.t BETWEEN d.t - INTERVAL 1 HOUR AND d.t", Hour, 0),
      ("d.t = o.t", 0, 0),
      ("o.t = d.t", 0, 0),
      ("d.t = o.t + INTERVAL 5 MINUTES", 5 * Minute, -5 * Minute),
      ("d.t - INTERVAL 5 MINUTES = o.t", 5 * Minute, -5 * Minute),
      ("d.t - INTERVAL 1 HOUR <= o.t AND d.t + INTERVAL 1 MINUTE >= o.t", Hour, Minute),
      ("NOT (d.t < o.t) AND NOT (d.t > o.t + INTERVAL 1 HOUR)", Hour, 0),
      ("NOT (d.t <= o.t OR d.t >= o.t + INTERVAL 1 HOUR)", Hour - 1, -1),
      ("NOT (d.t NOT BETWEEN o.t AND o.t + INTERVAL 1 HOUR)", Hour, 0),
      ("o.t + INTERVAL 10 MINUTES >= d.t - INTERVAL 20 MINUTES AND o.t <= d.t", 30 * Minute, 0),
      ("d.t >= o.t + INTERVAL 1 HOUR AND d.t <= o.t + INTERVAL 2 HOURS", 2 * Hour, -Hour)
    )
    forAll(table)(on)
  }

  test("intervals may be in any unit") {
    val units = Table[String, Long](
      ("interval", "microseconds"),
      ("INTERVAL 1 MICROSECOND", 1),
      ("INTERVAL 3 MILLISECONDS", 3000),
      ("INTERVAL 2 SECONDS", 2 * Second),
      ("INTERVAL '0.000001' SECOND", 1),
      ("INTERVAL '1.5' SECOND", 1500000),
      ("INTERVAL 90 MINUTES", 90 * Minute),
      ("INTERVAL 25 HOURS", 25 * Hour),
      ("INTERVAL 1 DAY", Day),
      ("INTERVAL 2 WEEKS", 14 * Day),
      ("INTERVAL '1 02:03:04.000005' DAY TO SECOND", Day + 2 * Hour + 3 * Minute + 4 * Second + 5),
      ("INTERVAL '01:30' HOUR TO MINUTE", 90 * Minute),
      ("INTERVAL '1 day 2 hours 3 microseconds'", Day + 2 * Hour + 3),
      ("INTERVAL '-5' MINUTE", -5 * Minute),
      ("INTERVAL -5 MINUTES", -5 * Minute),
      ("(- INTERVAL '-5' MINUTE)", 5 * Minute),
      ("INTERVAL 1 HOUR * 2", 2 * Hour),
      ("2 * INTERVAL 1 HOUR / 4", Hour / 2),
      ("(INTERVAL 1 HOUR + INTERVAL 1 SECOND)", Hour + Second),
      ("(INTERVAL 1 HOUR - INTERVAL 1 DAY)", Hour - Day),
      ("make_dt_interval(1, 2, 3, 4.5)", Day + 2 * Hour + 3 * Minute + 4500000),
      ("make_interval(0, 0, 1, 2, 3, 4, 5.000006)", 9 * Day + 3 * Hour + 4 * Minute + 5 * Second + 6),
      ("CAST('INTERVAL 7 SECONDS' AS INTERVAL)", 7 * Second)
    )
    forAll(units) { (interval, micros) =>
      on(s"d.t BETWEEN o.t - INTERVAL 30 DAYS AND o.t + $interval", micros, 30 * Day)
      on(s"d.t - $interval >= o.t AND d.t - $interval <= o.t + INTERVAL 30 DAYS", 30 * Day + micros, -micros)
    }
  }

  test("legacy calendar intervals are accepted") {
    withConf("spark.sql.legacy.interval.enabled" -> "true") {
      on("d.t BETWEEN o.t AND o.t + INTERVAL 1 DAY 2 HOURS 3 MICROSECONDS", Day + 2 * Hour + 3, 0)
      on("d.t BETWEEN o.t - INTERVAL -5 MINUTES AND o.t + INTERVAL 1 WEEK", 7 * Day, -5 * Minute)
    }
  }

  test("timestampadd, dateadd and the like are accepted") {
    for (unit <- Seq("HOUR", "hour")) {
      on(s"d.t BETWEEN o.t AND timestampadd($unit, 2, o.t)", 2 * Hour, 0)
      val earlier = s"timestampadd($unit, -2, d.t)"
      on(s"$earlier >= timestampadd(MINUTE, -1, o.t) AND $earlier <= o.t", 2 * Hour, -119 * Minute)
      on(s"d.t BETWEEN o.t AND dateadd($unit, 2, o.t)", 2 * Hour, 0)
    }
    on("d.t BETWEEN o.t AND timestampadd(WEEK, 1, o.t)", 7 * Day, 0)
    on("d.t BETWEEN o.t AND timestampadd(MICROSECOND, 1, o.t)", 1, 0)
    val byFunction =
      col("o.id") === col("d.id") && col("d.t").between(col("o.t"), timestamp_add("hour", lit(3), col("o.t")))
    check(orders.join(deliveries, byFunction), 3 * Hour, 0)
    val byExpression = col("o.id") === col("d.id") && col("d.t") >= col("o.t") &&
      col("d.t") <= col("o.t") + expr("INTERVAL 3 HOURS")
    check(orders.join(deliveries, byExpression), 3 * Hour, 0)
  }

  test("BETWEEN may have more than a column in its middle") {
    // Spark would compute the middle once, below the join; the bounds are on the column behind it.
    on("d.t - INTERVAL 1 MINUTE BETWEEN o.t AND o.t + INTERVAL 1 HOUR", Hour + Minute, -Minute)
    val words = StreamJoin.bounds(
      orders.join(
        deliveries,
        expr("o.id = d.id AND d.t - INTERVAL 1 MINUTE BETWEEN o.t AND o.t + INTERVAL 1 HOUR")
      )
    )
    assert(
      words.select("bound").collect().map(_.getString(0)).toSeq ==
        Seq("d.t <= o.t + 1 hour 1 minute", "o.t <= d.t - 1 minute")
    )
  }

  test("differences of timestamps bound the join") {
    on("d.t - o.t BETWEEN INTERVAL 0 SECONDS AND INTERVAL 1 HOUR", Hour, 0)
    on("d.t - o.t <= INTERVAL 1 HOUR AND d.t - o.t > INTERVAL '-5' MINUTE", Hour, 5 * Minute - 1)
    on("INTERVAL 1 HOUR >= d.t - o.t AND INTERVAL 5 MINUTES >= o.t - d.t", Hour, 5 * Minute)
    on("d.t - o.t = INTERVAL 1 SECOND", Second, -Second)
    on("d.t - (o.t + INTERVAL 1 HOUR) <= INTERVAL 1 HOUR AND o.t <= d.t", 2 * Hour, 0)
    on("d.t - o.t - INTERVAL 1 HOUR <= INTERVAL 1 HOUR AND o.t <= d.t", 2 * Hour, 0)
    on("- (d.t - o.t) <= INTERVAL 1 HOUR AND d.t <= o.t", 0, Hour)
  }

  test("the tightest of several bounds counts") {
    on("d.t BETWEEN o.t AND o.t + INTERVAL 1 HOUR AND d.t < o.t + INTERVAL 10 MINUTES", 10 * Minute - 1, 0)
    on(
      "d.t BETWEEN o.t - INTERVAL 1 DAY AND o.t + INTERVAL 1 HOUR AND d.t = o.t + INTERVAL 1 MINUTE",
      Minute,
      -Minute
    )
    on(
      "d.t <= o.t + INTERVAL 2 HOURS AND d.t <= o.t + INTERVAL 1 HOUR AND d.t >= o.t AND d.t > o.t",
      Hour,
      -1
    )
    // A bound next to an OR.
    on("d.t BETWEEN o.t AND o.t + INTERVAL 1 HOUR AND (o.v = 1 OR d.t < o.t + INTERVAL 1 MINUTE)", Hour, 0)
  }

  test("other conjuncts, on one input or both, do not change the bounds") {
    val bound = "d.t BETWEEN o.t AND o.t + INTERVAL 1 HOUR"
    for (how <- Seq("inner", "left_outer", "right_outer", "full_outer", "left_semi", "left_anti"))
      for (
        more <- Seq(
          "o.v < d.v",
          "o.v > 20",
          "d.v > 20",
          "o.t > TIMESTAMP '2024-01-01'",
          "d.t < TIMESTAMP '2030-01-01'",
          "upper(o.id) = lower(d.id)",
          "o.v + d.v > 0",
          "(o.v = 1 OR d.v = 1)",
          "o.t <> d.t"
        )
      ) withClue(s"$how, $more: ") {
        check(orders.join(deliveries, expr(s"o.id = d.id AND $bound AND $more"), how), Hour, 0)
      }
  }

  test("equal windows of both times bound the join") {
    def windowed(name: String, every: String): DataFrame =
      streams.marked(name).withColumn("w", window(col("t"), "10 minutes", every)).as(name)
    val (tumbling, other) = (windowed("o", "10 minutes"), windowed("d", "10 minutes"))
    check(tumbling.join(other, expr("o.id = d.id AND o.w = d.w")), 0, 0)
    check(tumbling.join(other, expr("o.id = d.id")).where("o.w = d.w"), 0, 0)
    check(tumbling.drop("t").as("o").join(other.drop("t").as("d"), Seq("id", "w")), 0, 0)
    // With the keys given by name, the windows alone may be the equality.
    check(tumbling.join(other, Seq("w")), 0, 0)
    val (sliding, slidingToo) = (windowed("o", "5 minutes"), windowed("d", "5 minutes"))
    check(sliding.join(slidingToo, expr("o.id = d.id AND o.w = d.w"), "left_outer"), 0, 0)
  }

  test("equal windows: each pair is emitted once, and state ends with the window") {
    running(job { streams =>
      def windowed(name: String) =
        streams.marked(name).withColumn("w", window(col("t"), "10 minutes")).as(name)
      windowed("o")
        .join(windowed("d"), expr("o.id = d.id AND o.w = d.w"), "left_outer")
        .selectExpr("o.v", "d.v", "o.w.start")
    }) { job =>
      assert(job.feed(o("a", "10:01", 1), d("a", "10:09:59.999", 2), d("a", "10:10", 3)) == Seq("1 2 10:00"))
      // watermark of d.t 10:10: the window of 10:00 is over for d, but may still get orders
      assert(job.feed(o("a", "10:09", 4), o("a", "10:05", 5)) == Seq("4 2 10:00", "5 2 10:00"))
      assert(job.feed(o("a", "10:10", 6)) == Seq("6 3 10:10"))
      // W(o) = 10:31, W(d) = 10:30: windows before 10:30 are over on both sides.
      assert(job.feed(o("b", "10:31", 7), d("b", "10:30", 8)) == Seq("7 8 10:30"))
      assert(job.operator.numRowsTotal == 2)
      // watermark of o.t 10:40; d.t stays at 10:30, so no row is padded yet
      assert(job.feed(o("c", "10:40", 9)).isEmpty)
      // W(d) = 10:50 evicts orders of the windows before it.
      assert(job.feed(d("b", "10:50", 9)) == Seq("9 - 10:40"))
    }
  }

  test("SQL: FROM a, b WHERE, JOIN ON and USING all work, also over views") {
    streams.raw("o").withWatermark("t", "0 seconds").createOrReplaceTempView("orders")
    streams.raw("d").withWatermark("t", "0 seconds").createOrReplaceTempView("deliveries")
    val bound = "d.t BETWEEN o.t AND o.t + INTERVAL 1 HOUR"
    for (
      query <- Seq(
        s"SELECT * FROM orders o, deliveries d WHERE o.id = d.id AND $bound",
        s"SELECT * FROM orders o JOIN deliveries d ON o.id = d.id AND $bound",
        s"SELECT o.v FROM orders o JOIN deliveries d ON o.id = d.id WHERE $bound",
        s"SELECT id, o.v AS a, d.v AS b FROM orders o JOIN deliveries d USING (id) WHERE $bound",
        s"SELECT * FROM orders o LEFT JOIN deliveries d ON o.id = d.id AND $bound",
        s"SELECT * FROM orders o RIGHT JOIN deliveries d ON $bound AND d.id = o.id",
        s"SELECT * FROM orders o FULL JOIN deliveries d ON o.id = d.id AND $bound",
        s"SELECT * FROM orders o LEFT SEMI JOIN deliveries d ON o.id = d.id AND $bound",
        s"SELECT * FROM orders o LEFT ANTI JOIN deliveries d ON o.id = d.id AND $bound",
        s"SELECT * FROM orders o CROSS JOIN deliveries d WHERE o.id = d.id AND $bound",
        s"SELECT * FROM (SELECT id, t FROM orders) o JOIN (SELECT t, id FROM deliveries) d USING (id) " +
          s"WHERE $bound",
        s"WITH d AS (SELECT * FROM deliveries) SELECT * FROM orders o, d WHERE $bound AND o.id = d.id"
      )
    ) withClue(s"$query: ")(check(spark.sql(query), Hour, 0))
    // The filter on the right side turns this into an inner join: nothing is padded.
    val filtered = spark.sql(
      s"SELECT * FROM orders o LEFT JOIN deliveries d ON o.id = d.id AND $bound WHERE d.v > 0"
    )
    assert(joins(filtered).map(_.plan.joinType.name) == Seq("inner"))
  }

  test("SQL: a common table expression used twice becomes two inputs") {
    running(job { streams =>
      streams.raw("o").withWatermark("t", "0 seconds").createOrReplaceTempView("events")
      spark.sql("""
        WITH e AS (SELECT * FROM events WHERE v > 0)
        SELECT o.v AS a, d.v AS b FROM e o LEFT JOIN e d
          ON o.id = d.id AND d.t > o.t AND d.t <= o.t + INTERVAL 10 MINUTES""")
    }) { job =>
      // W(d) = 10:30 evicts rows of o before 10:20, W(d) = 10:50 those before 10:40.
      val out = job.feed(o("a", "10:00", 1), o("a", "10:05", 2)) ++ job.feed(o("a", "10:30", 3)) ++
        job.feed(o("a", "10:50", 4))
      assert(out == Seq("1 2", "2 -", "3 -"))
      assert(job.joins.size == 1)
    }
  }

  test("SQL: watermarks may be set in the FROM clause") {
    running(job { streams =>
      streams.raw("o").createOrReplaceTempView("orders")
      streams.raw("d").createOrReplaceTempView("deliveries")
      spark.sql("""
        SELECT o.v AS a, d.v AS b
        FROM STREAM orders WATERMARK t DELAY OF INTERVAL 0 SECONDS AS o
        LEFT JOIN STREAM deliveries WATERMARK t DELAY OF INTERVAL 0 SECONDS AS d
          ON o.id = d.id AND d.t BETWEEN o.t AND o.t + INTERVAL 1 HOUR""")
    }) { job =>
      assert(job.feed(o("a", "10:00", 1), d("a", "10:30", 2), o("b", "10:00", 3)) == Seq("1 2"))
      // watermark of d.t 11:30: order 3 of 10:00 cannot match any more
      assert(job.feed(d("x", "11:30", 4)) == Seq("3 -"))
      assert(job.joins.size == 1)
    }
  }

  test("comparing windows with < or <= is not a bound") {
    // A window of an hour starts before the ten-minute windows inside it, and ends after them.
    running(job { streams =>
      def windowed(name: String, duration: String) =
        streams.raw(name).withWatermark("t", "0 seconds").withColumn("w", window(col("t"), duration)).as(name)
      val bound = "d.t BETWEEN o.t - INTERVAL 1 HOUR AND o.t + INTERVAL 1 HOUR"
      windowed("o", "10 minutes")
        .join(windowed("d", "1 hour"), expr(s"o.id = d.id AND d.w <= o.w AND $bound"), "left_outer")
        .selectExpr("o.v", "d.v")
    }) { job =>
      assert(job.feed(o("a", "10:15", 1), d("x", "10:40", 2)).isEmpty)
      // W(d) = 10:45 keeps orders from 09:45 on.
      assert(job.feed(d("x", "10:45", 2)).isEmpty)
      assert(job.feed(d("a", "10:55", 3)) == Seq("1 3"))
    }
  }

  test("the time column may be renamed") {
    val bound = "s BETWEEN r AND r + INTERVAL 1 HOUR"
    val left = streams.raw("o").withWatermark("t", "0 seconds")
    val right = streams.raw("d").withWatermark("t", "0 seconds")
    val renamed = Seq[(DataFrame, DataFrame)](
      (left.withColumnRenamed("t", "r"), right.withColumnRenamed("t", "s")),
      (left.select(col("id"), col("t").as("r")), right.selectExpr("id", "t AS s")),
      (left.selectExpr("id", "t AS x").selectExpr("id", "x AS r"), right.selectExpr("t AS s", "id")),
      (left.withColumn("r", col("t")), right.withColumn("s", col("t"))),
      (left.toDF("id", "r", "v"), right.toDF("id", "s", "v")),
      (left.selectExpr("id", "CAST(t AS TIMESTAMP) AS r"), right.selectExpr("id", "t AS s"))
    )
    renamed.foreach { case (a, b) => check(a.join(b, "id").where(bound), Hour, 0) }
  }

  test("the bound may be on a time shifted in a projection") {
    val left = streams.raw("o").withWatermark("t", "0 seconds")
    val right = deliveries
    def five(frame: DataFrame): DataFrame = frame.selectExpr("id", "t + INTERVAL 5 MINUTES AS t5").as("o")
    check(five(left).join(right, expr("o.id = d.id AND d.t BETWEEN t5 AND t5 + INTERVAL 1 HOUR")), Hour, 0)
    val earlier = left.withColumn("t5", expr("t - INTERVAL 5 MINUTES")).as("o")
    check(earlier.join(right, expr("o.id = d.id AND d.t = o.t5")), 0, 0)
  }

  test("a shifted time is late and expires by the shifted watermark, even if its column is pruned") {
    running(job { streams =>
      val shifted = streams.marked("o").selectExpr("id", "t + INTERVAL 5 MINUTES AS t5", "v").as("o")
      val on = expr("o.id = d.id AND d.t BETWEEN t5 AND t5 + INTERVAL 10 MINUTES")
      shifted.join(streams.marked("d"), on, "left_outer").selectExpr("o.v", "d.v")
    }) { job =>
      // t5 is 10:05: it waits until d.t is past 10:15.
      assert(job.feed(o("a", "10:00", 1), d("x", "10:15", 2)).isEmpty)
      assert(job.feed(d("a", "10:15", 3)) == Seq("1 3"))
      // watermarks: o.t5 10:05, d.t 10:15; a row at the limit is kept
      assert(job.feed(o("b", "10:00", 4)).isEmpty)
      assert(job.state._1 == 2)
      assert(job.feed(o("b", "09:59", 5)).isEmpty)
      assert(job.operator.numRowsDroppedByWatermark == 1)
      // W(d) = 10:15:00.001 evicts orders whose t5 is before 10:05:00.001.
      assert(job.feed(d("x", "10:15:00.001", 6)) == Seq("4 -"))
    }
  }

  test("bounds below a millisecond are exact") {
    val between = "o.id = d.id AND d.t > o.t AND d.t < o.t + INTERVAL 3 MICROSECONDS"
    running(job(picked("inner", between))) { job =>
      val out = job.feed(o("a", "10:00:00.000010", 1)) ++
        job.feed((8 to 15).map(n => d("a", f"10:00:00.0000$n%02d", n)): _*)
      assert(out == Seq("1 11", "1 12"))
    }
  }

  test("a full outer join with USING coalesces the columns of both sides") {
    running(job { streams =>
      val right = streams.marked("d").withColumnRenamed("v", "w").as("d")
      streams.marked("o").join(right, Seq("id", "t"), "full_outer").selectExpr("id", "t", "v", "w")
    }) { job =>
      val rows = Seq(o("a", "10:00", 1), d("a", "10:00", 2), o("b", "10:00", 3), d("c", "10:00", 4))
      assert(job.feed(rows: _*) == Seq("a 10:00 1 2"))
      // Both watermarks are 10:01, and evict all rows before it.
      assert(
        job.feed(o("x", "10:01", 0), d("x", "10:01", 0)) == Seq("b 10:00 3 -", "c 10:00 - 4", "x 10:01 0 0")
      )
    }
  }

  test("a stream can be joined with itself") {
    running(job { streams =>
      val events = streams.raw("o").withWatermark("t", "0 seconds")
      val later = expr("o.id = d.id AND d.t > o.t AND d.t <= o.t + INTERVAL 10 MINUTES")
      events.as("o").join(events.as("d"), later, "left_outer").selectExpr("o.v", "d.v")
    }) { job =>
      // At the end, W(d) = 10:40 evicts rows of o before 10:30.
      val out = job.feed(o("a", "10:00", 1), o("a", "10:05", 2)) ++ job.feed(o("a", "10:15", 3)) ++
        job.feed(o("x", "10:40", 4))
      assert(out.sorted == Seq("1 2", "2 3", "3 -"))
    }
  }

  // Times that are cut to a unit.

  private val units = Seq(
    "date_trunc('SECOND', %s)" -> (Second, Second),
    "date_trunc('minute', %s)" -> (Minute, Minute),
    "date_trunc('HOUR', %s)" -> (Hour, Hour),
    "date_trunc('DAY', %s)" -> (Day, Day + Hour),
    "date_trunc('WEEK', %s)" -> (7 * Day, 7 * Day + Hour),
    "to_date(%s)" -> (Day, Day + Hour),
    "CAST(%s AS DATE)" -> (Day, Day + Hour)
  )

  test("equal units of both times bound the join by the longest such unit") {
    for ((zone, number) <- Seq("UTC", "Europe/Berlin").zipWithIndex; (unit, lengths) <- units)
      withConf("spark.sql.session.timeZone" -> zone) {
        val length = if (number == 0) lengths._1 else lengths._2
        on(s"${unit.format("o.t")} = ${unit.format("d.t")}", length - 1, length - 1)
      }
    // Clocks that are set back by a part of an hour repeat minutes of an hour that has begun.
    withConf("spark.sql.session.timeZone" -> "Australia/Lord_Howe") {
      val longest = Hour + 36 * Minute + 20 * Second
      on("date_trunc('HOUR', o.t) = date_trunc('HOUR', d.t)", longest - 1, longest - 1)
    }
    on("to_date(d.t) BETWEEN to_date(o.t) AND date_add(to_date(o.t), 2)", 3 * Day - 1, Day - 1)
    on("date_trunc('HOUR', d.t) = date_trunc('HOUR', o.t) + INTERVAL 1 HOUR", 2 * Hour - 1, -1)
  }

  test("equal tumbling windows in a condition bound the join") {
    val tenMinutes = 10 * Minute - 1
    for (
      condition <- Seq(
        "window(o.t, '10 minutes') = window(d.t, '10 minutes')",
        "window(d.t, '10 minutes', '10 minutes', '1 minute') = window(o.t, '10 minutes', '10 minutes', '1 minute')"
      )
    ) check(orders.join(deliveries, expr(s"o.id = d.id AND $condition")), tenMinutes, tenMinutes)
    val byFunction = window(col("o.t"), "10 minutes") === window(col("d.t"), "10 minutes")
    check(orders.join(deliveries, col("o.id") === col("d.id") && byFunction), tenMinutes, tenMinutes)
    for (
      condition <- Seq(
        "window(o.t, '10 minutes', '5 minutes') = window(d.t, '10 minutes', '5 minutes')",
        "window(o.t, '10 minutes') = window(d.t, '5 minutes')"
      )
    )
      assert(
        intercept[AnalysisException](
          orders.join(deliveries, expr(s"o.id = d.id AND $condition"))
        ).getCondition == "STREAMJOIN_INPUT.WINDOWS"
      )
  }

  test("equal days, hours and windows: the pairs of a batch, and no more state") {
    val conditions = Seq(
      "to_date(o.t) = to_date(d.t)",
      "date_trunc('HOUR', o.t) = date_trunc('HOUR', d.t)",
      "window(o.t, '25 minutes') = window(d.t, '25 minutes')"
    )
    // Around the hour that is repeated, at 01:00 UTC.
    def times = (0 until 12).map(n =>
      f"2024-10-${26 + n / 4}T${n % 4 match {
          case 0 => "21:50"
          case 1 => "22:10"
          case 2 => "00:20"
          case _ => f"${n % 3}%02d:10"
        }}"
    )
    val left = times.zipWithIndex.map { case (time, n) => o("a", time, n) }
    val right = times.reverse.zipWithIndex.map { case (time, n) => d("a", time, 100 + n) }
    withConf("spark.sql.session.timeZone" -> "Europe/Berlin", "spark.sql.codegen.wholeStage" -> "true") {
      for (condition <- SparkTest.part(conditions, every = 2)) withClue(condition) {
        val frames = Seq(left, right).map { rows =>
          spark.createDataFrame(
            java.util.Arrays.asList(rows.map(_._2): _*),
            org.apache.spark.sql.types.StructType.fromDDL(Events)
          )
        }
        val expected = frames.head
          .as("o")
          .join(frames(1).as("d"), expr(s"o.id = d.id AND $condition"), "left_outer")
          .selectExpr("o.v", "d.v")
          .collect()
          .map(text)
          .toSeq
        val on = s"o.id = d.id AND $condition"
        running(job(picked(condition = on))) { job =>
          val rows = (left ++ right).sortBy(_._2.getTimestamp(1).getTime)
          val out = rows.grouped(5).flatMap(job.feed(_: _*)).toSeq ++
            job.feed(o("x", "2024-12-01T00:00", 999), d("y", "2024-12-01T00:00", 999))
          assert(out.filterNot(_.contains("999")).sorted == expected.sorted)
          assert(job.state == (1, 1))
        }
      }
    }
  }

  // Days on which clocks change.

  test("a day has 25 hours in Berlin, 24 in UTC") {
    def day(zone: String): Map[Side, Long] = withConf("spark.sql.session.timeZone" -> zone) {
      kept(newStreams().marked("o").join(newStreams().marked("d"), expr(daily)))
    }
    def expected(left: Long): Map[Side, Long] = Map(Side.Left -> left, Side.Right -> 0L)
    assert(day("UTC") == expected(Day))
    assert(day("+02:00") == expected(Day))
    for (zone <- Seq("Europe/Berlin", "America/New_York"))
      assert(day(zone) == expected(Day + Hour), zone)
  }

  private val daily = "o.id = d.id AND d.t BETWEEN o.t AND o.t + INTERVAL 1 DAY"

  test("durations of less than a day, and calendar intervals of hours, keep their exact length") {
    withConf("spark.sql.session.timeZone" -> "Europe/Berlin") {
      on("d.t BETWEEN o.t AND o.t + INTERVAL '23:59:59.999999' HOUR TO SECOND", Day - 1, 0)
      on("d.t BETWEEN o.t AND timestampadd(HOUR, 24, o.t)", Day, 0)
      on("d.t BETWEEN o.t AND timestampadd(DAY, 1, o.t)", Day + Hour, 0)
      on("d.t BETWEEN timestampadd(DAY, -1, o.t) AND o.t", 0, Day + Hour)
      // Two days include one clock change.
      on("d.t BETWEEN o.t AND o.t + INTERVAL 2 DAYS", 2 * Day + Hour, 0)
    }
  }

  private val days = Seq(
    "Europe/Berlin" -> daily,
    "Europe/Berlin" -> "o.id = d.id AND d.t >= o.t AND d.t - o.t <= INTERVAL 1 DAY",
    "Europe/Berlin" -> "o.id = d.id AND d.t >= o.t AND timestampadd(DAY, -1, d.t) <= o.t"
  )

  for ((zone, condition) <- SparkTest.part(days, every = 3))
    test(s"a match on a day of 25 hours is found: $zone, $condition") {
      withConf("spark.sql.session.timeZone" -> zone) {
        running(job(picked(condition = condition))) { job =>
          // 14:00 on the local clock, the day before it goes back.
          assert(job.feed(o("a", "2024-10-26T12:00", 1), d("x", "2024-10-26T12:00", 0)).isEmpty)
          // More than 24 hours later, but less than a day on the local clock.
          assert(job.feed(d("x", "2024-10-27T12:59", 0)).isEmpty)
          assert(job.feed(d("x", "2024-10-27T12:59:30", 0)).isEmpty)
          assert(
            job.feed(d("a", "2024-10-27T13:00", 2), d("a", "2024-10-27T13:00:00.000001", 3)) == Seq("1 2")
          )
        }
      }
    }

  test("a day of 23 hours is not treated as longer") {
    withConf("spark.sql.session.timeZone" -> "America/New_York") {
      running(job(picked(condition = daily))) { job =>
        // 14:00 local time, and 14:00 local time the day after, when clocks have gone forward.
        assert(job.feed(o("a", "2024-03-09T19:00", 1)).isEmpty)
        assert(job.feed(d("a", "2024-03-10T18:00", 2), d("a", "2024-03-10T18:00:00.000001", 3)) == Seq("1 2"))
      }
    }
  }

  test("rows are kept long enough for a difference across a clock change") {
    withConf("spark.sql.session.timeZone" -> "Europe/Berlin") {
      // Less than a minute apart on the local clock, but an hour apart in truth.
      val minute = "o.id = d.id AND d.t >= o.t AND d.t - o.t < INTERVAL 1 MINUTE"
      running(job(picked(condition = minute))) { job =>
        assert(job.feed(o("a", "2024-10-27T00:30", 1)).isEmpty)
        assert(job.feed(d("x", "2024-10-27T01:30", 0)).isEmpty)
        assert(job.feed(d("a", "2024-10-27T01:30:30", 2)) == Seq("1 2"))
      }
    }
  }

  test("a running query uses our join, not Spark's") {
    val conditions = Seq[Column](
      expr("o.id = d.id AND d.t - o.t BETWEEN INTERVAL 0 SECONDS AND INTERVAL 1 HOUR"),
      col("o.id") === col("d.id") && col("d.t").between(col("o.t"), col("o.t") + expr("INTERVAL 1 HOUR"))
    )
    for (condition <- conditions)
      running(
        job(streams => streams.marked("o").join(streams.marked("d"), condition).selectExpr("o.v", "d.v"))
      ) { job =>
        assert(job.feed(o("a", "10:00", 1), d("a", "11:00", 2), d("a", "11:00:00.000001", 3)) == Seq("1 2"))
        assert(job.joins.size == 1)
        assert(!job.plan.toString.contains("StreamingSymmetricHashJoin"))
      }
  }
}
