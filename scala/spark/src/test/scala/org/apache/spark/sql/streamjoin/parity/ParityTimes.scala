package org.apache.spark.sql.streamjoin.parity

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.functions.{col, expr, window}

import ParityCase.{frame, sql}

/** Time bounds, watermarks, filters next to them, `now()` and clock changes. */
private[streamjoin] object ParityTimes {
  import ParityPairs.{Both, Bound, leftOuter}

  private def bound(condition: String) =
    sql(s"bound: $condition")(
      s"SELECT o.v, d.v AS w, o.t AS a, d.t AS b FROM o JOIN d ON o.id = d.id AND $condition"
    )

  private def filter(condition: String) =
    sql(s"WHERE: $condition")(s"SELECT o.v, d.v AS w, o.t AS a FROM o JOIN d ON $Both WHERE $condition")

  private def padded(condition: String) = sql(s"bound of a left join: $condition")(
    s"SELECT o.id, o.v, d.v AS w FROM o LEFT JOIN d ON o.id = d.id AND $condition WHERE o.t IS NOT NULL"
  ).whole

  private def seconds(time: String => String) =
    s"${time("d.t")} BETWEEN ${time("o.t")} - 300 AND ${time("o.t")} + 1200"

  /**
   * Without BETWEEN: Spark computes its middle in a column of its own, no longer sees a bound, and
   * pads no row.
   */
  private def ordered(time: String => String) =
    s"${time("d.t")} >= ${time("o.t")} - 300 AND ${time("d.t")} <= ${time("o.t")} + 1200"

  private val onSeconds = Seq(
    bound(seconds(t => s"CAST($t AS BIGINT)")),
    bound(seconds(t => s"CAST($t AS DOUBLE)")),
    bound(seconds(t => s"unix_timestamp($t)")),
    bound(seconds(t => s"to_unix_timestamp($t)")),
    bound(seconds(t => s"unix_seconds($t)")),
    bound("unix_micros(d.t) - unix_micros(o.t) BETWEEN 0 AND 600000000"),
    bound("CAST(d.t AS BIGINT) - CAST(o.t AS BIGINT) BETWEEN 0 AND 600"),
    bound("CAST(d.t AS BIGINT) > CAST(o.t AS BIGINT) AND CAST(d.t AS BIGINT) < CAST(o.t AS BIGINT) + 600"),
    padded(ordered(t => s"CAST($t AS BIGINT)")),
    padded(ordered(t => s"CAST($t AS DOUBLE)")),
    bound("abs(unix_timestamp(d.t) - unix_timestamp(o.t)) <= 600").either,
    bound("abs(unix_micros(d.t) - unix_micros(o.t)) = 180000000"),
    bound("timestampdiff(MINUTE, o.t, d.t) BETWEEN 0 AND 10").either,
    // Spark's join matches keys that are computed from nulls.
    bound("to_date(d.t) = to_date(o.t) AND o.t IS NOT NULL").either,
    bound("date_trunc('HOUR', d.t) = date_trunc('HOUR', o.t) AND o.t IS NOT NULL").either,
    bound(
      "date_trunc('MINUTE', d.t) BETWEEN date_trunc('MINUTE', o.t) AND date_trunc('MINUTE', o.t) + INTERVAL 10 MINUTES"
    ).either,
    bound("CAST(d.t AS BIGINT) DIV 600 = CAST(o.t AS BIGINT) DIV 600").either,
    bound(
      "CAST(d.t AS TIMESTAMP_NTZ) BETWEEN CAST(o.t AS TIMESTAMP_NTZ) AND CAST(o.t AS TIMESTAMP_NTZ) + INTERVAL 10 MINUTES"
    ).either
  )

  private val constants = Seq(
    bound("d.t = o.t"),
    bound("d.t = o.t + INTERVAL 3 MINUTES"),
    bound("d.t > o.t AND d.t < o.t + INTERVAL 10 MINUTES"),
    bound("d.t - o.t BETWEEN INTERVAL 0 SECONDS AND INTERVAL 10 MINUTES"),
    bound("d.t <= o.t + make_interval(0, 0, 0, 0, 0, 10) AND d.t >= o.t"),
    bound("d.t - INTERVAL 1 MINUTE BETWEEN o.t AND o.t + INTERVAL 10 MINUTES"),
    bound(s"$Bound AND date_trunc('HOUR', d.t) = date_trunc('HOUR', o.t)"),
    bound(s"$Bound AND to_date(d.t) = to_date(o.t) AND hour(o.t) = hour(d.t)"),
    bound(s"$Bound AND o.t <> d.t AND year(o.t) = 2024"),
    bound("d.t BETWEEN o.t + INTERVAL 10 MINUTES AND o.t - INTERVAL 10 MINUTES").copy(mayBeEmpty = true),
    bound("d.t BETWEEN o.t - INTERVAL 1 YEAR AND o.t + INTERVAL 10 MINUTES AND d.t >= o.t - INTERVAL 1 HOUR"),
    padded("d.t > o.t AND d.t < o.t + INTERVAL 10 MINUTES"),
    padded("d.t BETWEEN o.t + INTERVAL 5 MINUTES AND o.t + INTERVAL 10 MINUTES")
  )

  private val now = Seq(
    bound(s"$Bound AND greatest(o.t, d.t) < now()"),
    bound(s"$Bound AND d.t < now() AND o.t < now() - INTERVAL 1 DAY"),
    bound(s"$Bound AND datediff(now(), o.t) = datediff(now(), d.t)"),
    bound(s"$Bound AND to_date(now()) > to_date(o.t) AND o.v < year(now())"),
    bound(s"$Bound AND now() > o.t AND now() > d.t AND CAST(now() AS BIGINT) > o.v + d.v"),
    filter("datediff(current_date(), o.t) = datediff(current_date(), d.t)"),
    filter("current_timestamp() - o.t = current_timestamp() - d.t"),
    filter("o.t < current_date() AND d.t < localtimestamp()"),
    filter("greatest(o.t, d.t) < now()"),
    padded(s"$Bound AND greatest(o.t, d.t) < now()"),
    sql("current_date() in select")(
      s"SELECT o.v, d.v AS w, current_date() > o.t AS past, year(now()) > 2024 AS late FROM o JOIN d ON $Both"
    ),
    sql("now() below")(
      s"SELECT o.v, d.v AS w FROM (SELECT *, now() > t AS past FROM o WHERE t < now()) o JOIN d ON $Both AND o.past"
    ),
    sql("now() in the only equality")(
      s"SELECT o.v, d.v AS w FROM o JOIN d ON datediff(now(), o.t) + o.v = datediff(now(), d.t) + d.v AND $Bound"
    ).either
  )

  private def windowed(in: DataFrame, name: String, size: String, slide: Option[String] = None) =
    in.withColumn("w", slide.fold(window(col("t"), size))(window(col("t"), size, _))).as(name)

  private val windows = Seq(
    frame("equal tumbling windows") { in =>
      val (o, d) = (
        windowed(in.o, "o", "10 minutes").drop("t").as("o"),
        windowed(in.d, "d", "10 minutes").drop("t").as("d")
      )
      o.join(d, expr("o.id = d.id AND o.w = d.w"))
    },
    frame("equal tumbling windows, left outer, by names") { in =>
      val o = windowed(in.o.where("t IS NOT NULL"), "o", "10 minutes").select("id", "w", "v")
      o.join(windowed(in.d, "d", "10 minutes").selectExpr("id", "w", "v AS x"), Seq("id", "w"), "left_outer")
    }.whole,
    frame("equal sliding windows") { in =>
      val (o, d) = (
        windowed(in.o, "o", "10 minutes", Some("5 minutes")),
        windowed(in.d, "d", "10 minutes", Some("5 minutes"))
      )
      o.join(d, expr("o.id = d.id AND o.w = d.w")).select("o.id", "o.w", "o.v", "d.v")
    },
    frame("window starts compared next to bounds") { in =>
      val o = in.o.selectExpr("*", "window(t, '10 minutes').start AS s").as("o")
      o.join(in.d.selectExpr("*", "window(t, '10 minutes').start AS s").as("d"), expr(s"$Both AND o.s = d.s"))
    },
    sql("a window in the condition")(
      s"SELECT o.v, d.v AS w FROM (SELECT *, window(t, '10 minutes') AS w FROM o) o JOIN (SELECT *, window(t, '10 minutes') AS w FROM d) d ON o.id = d.id AND o.w = d.w AND o.v < d.v"
    ),
    frame("a window of a pair's time above")(in =>
      in.o.join(in.d, expr(Both)).select(window(col("o.t"), "5 minutes"), col("d.v"))
    )
  )

  private def computed(name: String, time: String) = frame(name) { in =>
    val o = in.raw("o", ParityInputs.AllColumns).selectExpr("id", s"$time AS t", "v")
    o.withWatermark("t", "10 minutes").as("o").join(in.d, expr(Both))
  }

  private val watermarks = Seq(
    frame("different delays")(in =>
      in.marked("o", "1 hour").join(in.marked("d", "15 minutes"), expr(Both)).select("o.v", "d.v")
    ),
    frame("different delays, left outer")(in =>
      leftOuter(in.marked("o", "1 hour"), in.marked("d", "15 minutes"))
    ).whole,
    frame("a watermark on a shifted time") { in =>
      val o = in
        .raw("o")
        .withColumn("late", expr("t + INTERVAL 1 MINUTE"))
        .withWatermark("late", "10 minutes")
        .as("o")
      o.join(in.d, expr("o.id = d.id AND d.t BETWEEN o.late AND o.late + INTERVAL 10 MINUTES"))
    },
    computed("a watermark on a time parsed from text", "to_timestamp(text)"),
    computed("a watermark on a time made from seconds", "timestamp_seconds(long)"),
    frame("a watermark on a truncated time") { in =>
      val o =
        in.raw("o").withColumn("t", expr("date_trunc('MINUTE', t)")).withWatermark("t", "10 minutes").as("o")
      leftOuter(o, in.d)
    }.whole,
    frame("a time column renamed after withWatermark")(in =>
      in.o
        .withColumnRenamed("t", "x")
        .as("o")
        .join(in.d, expr("o.id = d.id AND d.t BETWEEN o.x AND o.x + INTERVAL 10 MINUTES"))
    ),
    frame("an input that ends early")(in => in.o.join(in.marked("short").as("d"), expr(Both))),
    frame("an input that ends early, left outer")(in =>
      leftOuter(in.o.where("id IS NOT NULL"), in.marked("short").as("d"))
    ).whole,
    frame("an input without event times at first, left outer")(in =>
      leftOuter(in.o, in.marked("belated").as("d"))
    ).whole,
    frame("multipleWatermarkPolicy=max")(in => in.o.join(in.d, expr(Both)))
      .set("spark.sql.streaming.multipleWatermarkPolicy" -> "max"),
    frame("multipleWatermarkPolicy=max, left outer")(in => leftOuter(in.o, in.d))
      .set("spark.sql.streaming.multipleWatermarkPolicy" -> "max")
      .whole
  )

  private val Later =
    "o.id = d.id AND d.t BETWEEN o.t + INTERVAL 5 DAYS - INTERVAL 5 MINUTES AND o.t + INTERVAL 5 DAYS + INTERVAL 20 MINUTES"
  private val typed = "id STRING, t TIMESTAMP, v INT, type STRING"

  private def half(in: ParityInputs, kind: String, name: String) =
    in.marked("mixed", columns = typed).where(s"type = '$kind'").as(name)

  private val filters = Seq(
    frame("a filter before withWatermark")(in =>
      in.raw("o").where("v > 1").withWatermark("t", "10 minutes").as("o").join(in.d, expr(Both))
    ),
    frame("a filter after withWatermark")(in => in.o.where("v > 1").join(in.d, expr(Both))),
    frame("a corrupt row that a filter removes before withWatermark") { in =>
      in.raw("corrupt").where("v >= 0").withWatermark("t", "10 minutes").as("o").join(in.d, expr(Both))
    },
    frame("a corrupt row that a filter removes after withWatermark")(in =>
      in.marked("corrupt").where("v >= 0").as("o").join(in.d, expr(Both))
    ),
    frame("a corrupt row that a filter removes after withWatermark, next to computed columns") { in =>
      val o = in.raw("corrupt").selectExpr("*", "v + 1 BETWEEN 0 AND 9 AS low", "nullif(v + 1, 3) AS n")
      o.withWatermark("t", "10 minutes").where("v >= 0").as("o").join(in.d, expr(Both)).select("o.v", "d.v")
    },
    frame("a corrupt row, left outer")(in =>
      leftOuter(in.marked("corrupt").where("v >= 0").as("o"), in.d)
    ).whole,
    frame("a corrupt row that the condition removes")(in =>
      in.marked("corrupt").as("o").join(in.d, expr(s"$Both AND o.v >= 0"))
    ),
    frame("a corrupt row that WHERE removes")(in =>
      in.marked("corrupt").as("o").join(in.d, expr(Both)).where("o.v >= 0 AND d.v < 9")
    ),
    frame("a mixed topic, each half with a watermark")(in =>
      half(in, "order", "o").join(half(in, "delivery", "d"), expr(Later))
    ),
    frame("a mixed topic, left outer")(in =>
      leftOuter(half(in, "order", "o"), half(in, "delivery", "d").where("t IS NOT NULL"), Later)
    ).whole,
    frame("a mixed topic, split by the condition") { in =>
      val o = in.marked("mixed", columns = typed).as("o")
      o.join(
        in.marked("mixed", columns = typed).as("d"),
        expr(s"$Later AND o.type = 'order' AND d.type = 'delivery'")
      ).select("o.v", "d.v")
    },
    frame("a mixed topic in views") { in =>
      in.raw("mixed", typed).createOrReplaceTempView("topic")
      for ((name, kind) <- Seq("orders" -> "order", "deliveries" -> "delivery"))
        in.session.sql(
          s"""CREATE TEMP VIEW $name AS SELECT id, t, v
              FROM STREAM topic WATERMARK t DELAY OF INTERVAL 10 MINUTES WHERE type = '$kind'"""
        )
      in.session.sql(s"SELECT o.v, d.v AS w FROM orders o JOIN deliveries d ON $Later")
    }
  )

  private val Day = "o.id = d.id AND d.t BETWEEN o.t AND o.t + INTERVAL 1 DAY"
  private val zones = Seq("Europe/Berlin", "America/New_York").flatMap { zone =>
    Seq(
      frame(s"a day in $zone across the clock change")(in =>
        in.marked("autumn").as("o").join(in.marked("autumn2").as("d"), expr(Day)).select("o.t", "d.t", "d.v")
      ),
      frame(s"a day in $zone across the clock change, left outer")(in =>
        leftOuter(in.marked("autumn").as("o"), in.marked("autumn2").as("d"), Day)
      ).whole
    ).map(_.set("spark.sql.session.timeZone" -> zone))
  } :+ frame("minutes within the hour that comes twice")(in =>
    in.marked("autumn").as("o").join(in.marked("autumn2").as("d"), expr(Both)).select("o.t", "d.t", "d.v")
  )
    .set("spark.sql.session.timeZone" -> "Europe/Berlin")

  val cases: Seq[ParityCase] = onSeconds ++ constants ++ now ++ windows ++ watermarks ++ filters ++ zones
}
