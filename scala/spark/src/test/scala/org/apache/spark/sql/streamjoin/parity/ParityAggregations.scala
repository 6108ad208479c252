package org.apache.spark.sql.streamjoin.parity

import org.apache.spark.sql.expressions.Aggregator
import org.apache.spark.sql.functions.{col, count, expr, max, session_window, sum, udaf, window}
import org.apache.spark.sql.{Encoder, Encoders}

import ParityCase.{frame, sql}

/** Aggregations and deduplication below and above a join, and output modes other than append. */
private[streamjoin] object ParityAggregations {
  import ParityPairs.{Both, padded, pairs}

  private val third = "p.id = e.id AND e.t BETWEEN p.t AND p.t + INTERVAL 10 MINUTES"

  private val aggregations = Seq(
    frame("counts per window above")(in =>
      pairs(in).groupBy(window(col("t"), "10 minutes"), col("id")).count()
    ).whole,
    frame("sums per sliding window above")(in =>
      pairs(in).groupBy(window(col("t"), "10 minutes", "5 minutes")).agg(sum("w"))
    ).whole,
    frame("counts per window above a left join")(in =>
      padded(in).groupBy(window(col("t"), "10 minutes"), col("id")).agg(count("w"), count("v"))
    ).whole,
    frame("grouping by the event time above")(in => pairs(in).groupBy("t", "id").agg(max("w"))).whole,
    frame("session windows above")(in =>
      pairs(in).groupBy(session_window(col("t"), "3 minutes"), col("id")).count()
    ).whole,
    frame("collect_set per window above")(in =>
      pairs(in)
        .groupBy(window(col("t"), "1 hour"))
        .agg(expr("sort_array(collect_set(w))"), expr("count_if(v > 2)"))
    ).whole,
    sql("windowed aggregation in SQL above")(
      s"SELECT window(t, '10 minutes').start AS s, count(*) AS n, sum(w) FILTER (WHERE w > 1) AS f FROM (SELECT o.t, d.v AS w FROM o JOIN d ON $Both) GROUP BY window(t, '10 minutes') HAVING n > 1"
    ).whole,
    sql("now() inside an aggregate function above")(
      s"SELECT window(t, '10 minutes').start AS s, max(if(t < now(), w, 0)) AS m FROM (SELECT o.t, d.v AS w FROM o JOIN d ON $Both) GROUP BY window(t, '10 minutes')"
    ).whole,
    sql("now() in an aggregated table joined above")(
      s"SELECT o.v, d.v AS w, n.known FROM o JOIN d ON $Both JOIN (SELECT id, max(DATE'2020-01-01' < now()) AS known FROM names GROUP BY id) n ON n.id = o.id"
    ),
    frame("a user-defined Aggregator above") { in =>
      val longest = udaf(new LongestText)
      pairs(in).groupBy(window(col("t"), "10 minutes")).agg(longest(col("id")))
    }.whole,
    frame("windows over windows above") { in =>
      pairs(in)
        .groupBy(window(col("t"), "5 minutes"))
        .count()
        .groupBy(window(col("window"), "10 minutes"))
        .agg(sum("count"))
    }.whole,
    frame("windowed counts below, joined on equal windows") { in =>
      def counts(name: String) = in
        .marked(name)
        .groupBy(window(col("t"), "10 minutes"), col("id"))
        .count()
        .withColumnRenamed("count", s"n$name")
      counts("o").join(counts("d"), Seq("window", "id"))
    }.whole,
    frame("windowed counts below, left outer") { in =>
      def counts(name: String) =
        in.marked(name)
          .where("t IS NOT NULL")
          .groupBy(window(col("t"), "10 minutes"), col("id"))
          .count()
          .withColumnRenamed("count", s"n$name")
      counts("o").join(counts("d"), Seq("window", "id"), "left_outer")
    }.whole,
    frame("windowed counts below, joined by window_time") { in =>
      val counts = in.o
        .groupBy(window(col("t"), "10 minutes"), col("id"))
        .count()
        .selectExpr("id", "window_time(window) AS t", "count AS n")
        .as("o")
      counts.join(in.d, expr("o.id = d.id AND d.t BETWEEN o.t - INTERVAL 10 MINUTES AND o.t"))
    }.whole,
    frame("session windows below") { in =>
      val sessions = in.o
        .groupBy(session_window(col("t"), "2 minutes"), col("id"))
        .count()
        .selectExpr("id", "session_window.end AS t", "count AS n")
      sessions.as("o").join(in.d.select("id", "v").as("d"), expr("o.id = d.id")).selectExpr("o.id", "n", "v")
    }.whole.either
  )

  private val duplicates = Seq(
    frame("dropDuplicates below")(in =>
      in.raw("o")
        .withWatermark("t", "10 minutes")
        .dropDuplicates("id", "t")
        .as("o")
        .join(in.d, expr(Both))
        .select("o.id", "o.t", "d.v")
    ),
    frame("dropDuplicatesWithinWatermark below")(in =>
      in.raw("o")
        .withWatermark("t", "10 minutes")
        .dropDuplicatesWithinWatermark("id", "v")
        .as("o")
        .join(in.d, expr(Both))
        .select("o.id", "o.v", "d.v")
    ),
    sql("DISTINCT below")(s"SELECT o.id, o.t, d.v FROM (SELECT DISTINCT id, t FROM o) o JOIN d ON $Both"),
    frame("dropDuplicates on both sides, left outer") { in =>
      val o =
        in.raw("o").withWatermark("t", "10 minutes").where("t IS NOT NULL").dropDuplicates("id", "t").as("o")
      o.join(
        in.raw("d").withWatermark("t", "10 minutes").dropDuplicates("id", "t").as("d"),
        expr(Both),
        "left_outer"
      ).select("o.id", "o.t", "d.t")
    }.whole,
    frame("dropDuplicates above")(in => pairs(in).select("id", "t").dropDuplicates("id", "t")),
    frame("dropDuplicatesWithinWatermark above")(in =>
      pairs(in).dropDuplicatesWithinWatermark("id", "v").select("id", "v")
    ),
    sql("DISTINCT above")(
      s"SELECT DISTINCT id, t, w FROM (SELECT o.id, o.t, d.v AS w FROM o JOIN d ON $Both)"
    ),
    frame("dropDuplicates above a left join")(in =>
      padded(in).select("id", "t").dropDuplicates("id", "t")
    ).whole,
    frame("dropDuplicates without the event time above")(in => pairs(in).select("id", "w").dropDuplicates())
  )

  private val updates = Seq(
    frame("update mode: inner join")(in => in.o.join(in.d, expr(Both)).select("o.v", "d.v")),
    sql("update mode: a view joined with itself")(
      "CREATE TEMP VIEW clicks AS SELECT id, t, v FROM o",
      "SELECT a.v, b.v AS w FROM clicks a JOIN clicks b ON a.id = b.id AND b.t > a.t AND b.t <= a.t + INTERVAL 10 MINUTES"
    ),
    sql("update mode: left semi")(s"SELECT * FROM o LEFT SEMI JOIN d ON $Both"),
    sql("update mode: a table above")(
      s"SELECT o.id, name, d.v AS w FROM o JOIN d ON $Both JOIN names n ON n.id = o.id"
    ),
    frame("update mode: no time bound")(in => in.o.join(in.d, "id").select("o.v", "d.v"))
      .rejected("STREAMJOIN_UNBOUNDED"),
    frame("update mode: counts per window above")(in =>
      pairs(in).groupBy(window(col("t"), "10 minutes"), col("id")).count()
    ),
    frame("update mode: counts above")(in => pairs(in).groupBy("id").count()),
    frame("update mode: dropDuplicates above")(in => pairs(in).select("id", "t").dropDuplicates("id", "t")),
    frame("update mode: a chain")(in => pairs(in).join(in.e, expr(third)).select("p.id", "p.w", "e.v")).whole
  ).map(_.update)

  final private class LongestText extends Aggregator[String, String, String] {
    override def zero: String = ""
    override def reduce(a: String, b: String): String = merge(a, b)
    override def merge(a: String, b: String): String =
      Seq(a, b).filter(_ != null).maxByOption(text => (text.length, text)).getOrElse("")
    override def finish(text: String): String = text
    override def bufferEncoder: Encoder[String] = Encoders.STRING
    override def outputEncoder: Encoder[String] = Encoders.STRING
  }

  val cases: Seq[ParityCase] = aggregations ++ duplicates ++ updates
}
