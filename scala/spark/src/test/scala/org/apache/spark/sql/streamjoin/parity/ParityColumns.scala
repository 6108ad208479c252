package org.apache.spark.sql.streamjoin.parity

import org.apache.spark.sql.functions.{col, expr, udf}

import ParityCase.{frame, sql}

/** Keys and columns of every type, user-defined functions, ANSI mode, names. */
private[streamjoin] object ParityColumns {
  import ParityPairs.{Both, Bound}

  private def key(condition: String, columns: String = "o.id, d.id AS i, o.v, d.v AS w") =
    sql(s"key: $condition")(s"SELECT $columns FROM wide_o o JOIN wide_d d ON $condition AND $Bound")

  private val keys = Seq(
    key(
      "o.s = d.s AND o.arr = d.arr AND o.dec = d.dec AND o.bin = d.bin AND o.dbl = d.dbl AND o.flag = d.flag"
    ),
    key("o.day = d.day AND o.s.id = d.s.id AND o.m['k'] = d.m['k'] AND o.arr[0] = d.arr[0]"),
    key(
      "o.v = d.dec - 0.25 AND o.v = CAST(d.v AS BIGINT) AND o.v = CAST(d.v AS STRING) AND o.v + 0.5 = d.dbl"
    ),
    key("o.id <=> d.id"),
    key("o.id <=> d.id AND o.v <=> d.v AND o.flag = d.flag"),
    key("upper(o.id) = upper(d.id) AND o.v % 2 = d.v % 2"),
    key("o.v + 1 = d.v - 1"),
    key("concat(o.id, '-') = concat(d.id, '-') AND o.id IS NOT NULL"),
    key("coalesce(o.id, 'none') = coalesce(d.id, 'none') AND hash(o.v) = hash(d.v)"),
    key("struct(o.id, o.v) = struct(d.id, d.v)"),
    key("(o.id, o.v) <=> (d.id, d.v)"),
    key(
      "if(o.v = 0, -0.0D, if(o.v = 1, double('NaN'), 1D)) = if(d.v = 0, 0.0D, if(d.v = 1, double('NaN'), 2D))"
    ),
    key("o.id = d.id AND d.id = 'a'"),
    key("o.id = d.id AND o.v = 1 AND d.v = 1"),
    key("o.id = d.id AND o.id IN ('a', 'c') AND d.id LIKE 'a%' AND o.arr[0] < d.arr[0] AND o.dec + d.dec > 5")
  ).map(_.set("spark.sql.shuffle.partitions" -> "3"))

  private def kept(name: String, left: String, right: String = "d.v") = sql(s"column: $name")(
    s"SELECT o.id, $left AS a, $right AS b FROM (SELECT id, t, v, $name AS x FROM wide_o) o JOIN wide_d d ON $Both"
  )

  private val columns = Seq(
    frame("all columns of all types") { in =>
      in.wide("o").join(in.wide("d"), expr(Both)).drop("o.m", "d.m")
    },
    frame("the hidden _metadata column of the files") { in =>
      val o =
        in.raw("o").selectExpr("*", "_metadata.file_name AS file").withWatermark("t", "10 minutes").as("o")
      o.join(in.d, expr(Both)).select("o.file", "o.v", "d.v")
    },
    frame("columns that cannot be compared, computed before withWatermark") { in =>
      in.raw("o")
        .selectExpr(
          "*",
          "map('k', v) AS m",
          "from_json(id, 'MAP<STRING, STRING>') AS j",
          "make_interval(0, 0, 0, v) AS i",
          "to_variant_object(struct(id)) AS x"
        )
        .withWatermark("t", "10 minutes")
        .as("o")
        .join(in.d, expr(Both))
        .selectExpr("o.m", "o.j", "o.i", "CAST(o.x AS STRING)", "d.v")
    },
    frame("all columns of all types, left outer") { in =>
      in.wide("o").where("t IS NOT NULL").join(in.wide("d"), expr(Both), "left_outer")
    }.whole,
    kept("map('m', m, 'n', map('k', v))", "o.x['n']", "d.m"),
    kept(
      "struct(NULL AS n, make_dt_interval(0, v) AS d, make_ym_interval(v) AS y, CAST(t AS TIMESTAMP_NTZ) AS t, " +
        "CAST(dec AS DECIMAL(38, 10)) AS dec, id COLLATE UTF8_LCASE AS c, to_json(s) AS j, CAST(id AS CHAR(5)) AS f)",
      "o.x",
      "from_json(to_json(d.s), 'id STRING').id"
    ),
    kept("id COLLATE UTF8_LCASE", "o.x"),
    kept("NULL", "o.x"),
    kept("input_file_name()", "substring_index(o.x, '/', -1)", "spark_partition_id() >= 0"),
    kept("to_variant_object(s)", "CAST(o.x AS STRING)"),
    sql("the difference of the event times")(
      s"SELECT d.t - o.t AS x, timediff(SECOND, o.t, d.t) AS y FROM o JOIN d ON $Both"
    ),
    sql("structs of both sides")(s"SELECT struct(o.*) AS x, struct(d.*) AS y FROM o JOIN d ON $Both"),
    sql("expressions over padded nulls")(
      s"SELECT o.id, d.v + 1 AS x, d.id IS NULL AS y FROM o LEFT JOIN d ON $Both WHERE o.t IS NOT NULL"
    ).whole
  )

  private val plus = udf((x: Int, y: Int) => x + y)
  private val lower = udf((id: String) => if (id == null) null else id.toLowerCase)
  private val even = udf((v: Int) => v % 2 == 0)

  private val functions = Seq(
    frame("a UDF in select, in filters and in the join condition") { in =>
      val joined = in.o.where(even(col("v"))).join(in.d, expr(Both) && plus(col("o.v"), col("d.v")) > 1)
      joined.where(!even(col("d.v") + 1)).select(plus(col("o.v"), col("d.v")))
    },
    frame("a UDF as the join key") { in =>
      in.o
        .join(in.d, lower(col("o.id")) === lower(col("d.id")) && expr(s"$Bound AND o.id IS NOT NULL"))
        .select("o.id", "d.id", "o.v", "d.v")
    },
    frame("a UDF in the condition of a left join") { in =>
      in.o
        .where("t IS NOT NULL")
        .join(in.d, expr(Both) && even(col("d.v")), "left_outer")
        .select("o.id", "o.v", "d.v")
    }.whole,
    frame("a UDF that rejects the last row of the right input, left outer") { in =>
      in.o
        .where("id IS NOT NULL AND t IS NOT NULL")
        .join(in.d, expr(Both) && !even(col("d.v")), "left_outer")
        .select("o.id", "o.v", "d.v")
    }.whole,
    frame("a nondeterministic UDF in filters") { in =>
      val o = in.o.where(even.asNondeterministic()(col("v")))
      o.join(in.d, expr(Both))
        .where(even.asNondeterministic()(col("d.v")))
        .select(plus.asNondeterministic()(col("o.v"), col("d.v")))
    },
    frame("a registered UDF") { in =>
      in.session.udf.register("even", even)
      in.sql(s"SELECT o.v, d.v AS w FROM o JOIN d ON $Both AND even(o.v + d.v) WHERE even(d.v)")
    },
    frame("a UDF over the event times") { in =>
      val before =
        udf((x: java.sql.Timestamp, y: java.sql.Timestamp) => x != null && y != null && x.before(y))
      in.o.join(in.d, expr(Both) && before(col("o.t"), col("d.t"))).select("o.v", "d.v")
    }
  )

  private val cast = "TRY_CAST(o.id AS INT) IS NULL"
  private val names = Seq(
    sql("ANSI off")(
      s"SELECT o.v, d.v AS w, o.v / (d.v - 1) AS x FROM o JOIN d ON $Both AND CAST(o.id AS INT) IS NULL"
    )
      .set("spark.sql.ansi.enabled" -> "false"),
    sql("ANSI on")(s"SELECT o.v, d.v AS w, try_divide(o.v, d.v - 1) AS x FROM o JOIN d ON $Both AND $cast")
      .set("spark.sql.ansi.enabled" -> "true"),
    sql("ANSI off, text compared with a number")(
      s"SELECT o.v, d.v AS w FROM o JOIN d ON o.v = concat(d.v, '') AND $Bound"
    )
      .set("spark.sql.ansi.enabled" -> "false"),
    sql("names in upper case")(
      "SELECT O.V, D.V AS W FROM o O JOIN d D ON O.ID = D.ID AND D.T BETWEEN O.T AND O.T + INTERVAL 5 MINUTES"
    ),
    frame("case-sensitive names") { in =>
      val o = in.o.selectExpr("id AS ID", "v AS id", "t AS T", "v AS t").as("o")
      o.join(in.d, expr("o.ID = d.id AND d.t BETWEEN o.T AND o.T + INTERVAL 20 MINUTES"))
        .selectExpr("o.ID", "o.id", "o.t", "d.v")
    }.set("spark.sql.caseSensitive" -> "true"),
    frame("unusual column names") { in =>
      val o = in
        .raw("o")
        .selectExpr("id AS `the id`", "t AS `at.time`", "v AS `ä/v`")
        .withWatermark("`at.time`", "10 minutes")
      val d = in.raw("d").toDF("key", "t ", "1").withWatermark("`t `", "10 minutes")
      o.join(d, expr("`the id` = key AND `t ` BETWEEN `at.time` AND `at.time` + INTERVAL 20 MINUTES"))
    },
    frame("columns named like the operator's own") { in =>
      val o =
        in.raw("o").toDF("key", "watermark", "matched").withWatermark("watermark", "10 minutes").as("left")
      val d =
        in.raw("d").toDF("key", "watermark", "value").withWatermark("watermark", "10 minutes").as("right")
      o.join(
        d,
        expr(
          "left.key = right.key AND right.watermark BETWEEN left.watermark AND left.watermark + INTERVAL 20 MINUTES"
        )
      )
    },
    frame("a hundred columns") { in =>
      def many(frame: org.apache.spark.sql.DataFrame, name: String) =
        frame
          .select(col("id") +: col("t") +: col("v") +: (1 to 100).map(n => expr(s"v + $n AS c$n")): _*)
          .as(name)
      many(in.o, "o").join(many(in.d, "d"), expr(Both)).select("o.*", "d.c7", "d.c99")
    }
  )

  val cases: Seq[ParityCase] = keys ++ columns ++ functions ++ names
}
