package org.apache.spark.sql.streamjoin.parity

import org.apache.spark.sql.functions.{broadcast, col, expr}

import ParityCase.{frame, sql, sqls}

/** The ways to write a join of two streams. */
private[streamjoin] object ParityShapes {
  import ParityPairs.{Both, Bound}
  private val Timed = "o.t IS NOT NULL"

  private val plain = sqls(
    "JOIN ON" -> s"SELECT * FROM o JOIN d ON $Both",
    "JOIN USING" -> s"SELECT id, o.v AS a, d.v AS b FROM o JOIN d USING (id) WHERE $Bound",
    "JOIN USING the key and the time" -> "SELECT * FROM o JOIN d USING (id, t)",
    "NATURAL JOIN" -> "SELECT * FROM o NATURAL JOIN (SELECT id, t, v AS w FROM d)",
    "a join with column aliases" ->
      s"SELECT j.b + j.e AS s FROM (SELECT * FROM o JOIN d ON $Both) AS j(a, ta, b, c, tc, e)",
    "all columns but one" -> s"SELECT o.* EXCEPT (t), d.* EXCEPT (id, t) FROM o JOIN d ON $Both",
    "a table function next to the join" ->
      s"SELECT o.v, d.v AS w, x.col FROM o JOIN d ON $Both, explode(array(1, 2)) x",
    "comma and WHERE" -> s"SELECT o.*, d.v AS w FROM o, d WHERE $Both",
    "ON TRUE and WHERE" -> s"SELECT o.v, d.v AS w FROM o JOIN d ON TRUE WHERE $Both",
    "TRUE next to the condition" -> s"SELECT o.v, d.v AS w FROM o JOIN d ON TRUE AND $Both AND 1 = 1",
    "IS NOT DISTINCT FROM" ->
      s"SELECT o.id, o.v, d.v AS w FROM o JOIN d ON o.id IS NOT DISTINCT FROM d.id AND $Bound",
    "hints" ->
      s"SELECT /*+ BROADCAST(d), SHUFFLE_HASH(o), MERGE(o, d), REPARTITION(3), NOTHING(o) */ o.v, d.v AS w FROM o JOIN d ON $Both",
    "pipe syntax" -> s"FROM o |> JOIN d ON $Both |> WHERE o.v > 0 |> SELECT o.v, d.v AS w"
  ) ++ Seq(
    sql("NATURAL LEFT JOIN")(
      s"SELECT * FROM (SELECT id, t, v FROM o WHERE $Timed) NATURAL LEFT JOIN (SELECT id, t, v AS w FROM d)"
    ).whole,
    sql("FULL JOIN USING")(
      s"SELECT id, t, o.v, d.v AS w FROM (SELECT * FROM o WHERE $Timed AND id IS NOT NULL) o FULL JOIN (SELECT * FROM d WHERE t IS NOT NULL AND id IS NOT NULL) d USING (id, t)"
    ).whole,
    sql("never true")(s"SELECT o.v, d.v AS w FROM o JOIN d ON $Both AND 1 = 0").any.copy(mayBeEmpty = true),
    sql("never true, in WHERE")(s"SELECT o.v, d.v AS w FROM o JOIN d ON o.id = d.id WHERE FALSE").any
      .copy(mayBeEmpty = true),
    frame("broadcast()")(in => in.o.join(broadcast(in.d), expr(Both))),
    sql("watermarks in FROM")(
      s"""SELECT o.v, d.v AS w FROM STREAM raw_o WATERMARK t DELAY OF INTERVAL 10 MINUTES AS o
          JOIN STREAM raw_d WATERMARK t DELAY OF INTERVAL 10 MINUTES AS d ON $Both"""
    ),
    frame("parameters") { in =>
      in.views()
        .session
        .sql(s"SELECT o.v, d.v AS w FROM o JOIN d ON $Both AND d.v > :least", Map("least" -> 1))
    },
    sql("a session variable")(
      "DECLARE OR REPLACE VARIABLE least INT DEFAULT 2",
      s"SELECT o.v, d.v AS w FROM o JOIN d ON $Both AND o.v + d.v > least"
    ),
    sql("a SQL function")(
      "CREATE OR REPLACE TEMPORARY FUNCTION plus(x INT, y INT) RETURNS INT RETURN x + y",
      s"SELECT plus(o.v, d.v) AS p FROM o JOIN d ON $Both AND plus(o.v, d.v) > 3"
    )
  )

  private val frames = sqls(
    "a lateral column alias" -> s"SELECT o.v + d.v AS both, both * 2 AS twice FROM o JOIN d ON $Both",
    "CASE in the condition" ->
      s"SELECT o.v, d.v AS w FROM o JOIN d ON $Both AND CASE WHEN o.v > 2 THEN d.v < 3 ELSE TRUE END",
    "OR next to the bound" -> s"SELECT o.v, d.v AS w FROM o JOIN d ON $Both AND (o.v = 1 OR d.v = 1)",
    "a JOIN in parentheses" -> s"SELECT o.v, d.v AS w FROM (o JOIN d ON $Both) WHERE o.v > d.v"
  ) ++ Seq(
    frame("bounds in WHERE after the join") { in =>
      in.o.join(in.d, col("o.id") === col("d.id")).where(Bound).select("o.v", "d.v")
    },
    frame("join without a condition, then filters") { in =>
      in.o
        .join(in.d)
        .where("o.id = d.id")
        .where("d.t >= o.t")
        .where("d.t <= o.t + INTERVAL 20 MINUTES")
        .select("d.v")
    },
    frame("columns taken from the DataFrames") { in =>
      val (o, d) = (in.o, in.d)
      val far = o("t") + expr("INTERVAL 20 MINUTES")
      o.join(d, o("id") === d("id") && d("t") >= o("t") && d("t") <= far)
        .select(o("v"), d("v").as("w"), d("t"))
    },
    frame("keys given by name") { in =>
      in.o.join(in.d, "id").where(Bound).selectExpr("id", "o.v", "d.v AS w")
    },
    frame("joinWith")(in => in.o.joinWith(in.d, expr(Both)).toDF("one", "other")),
    frame("a column of one side only")(in => in.o.join(in.d, expr(Both)).select("o.v")),
    frame("only literals selected")(in => in.o.join(in.d, expr(Both)).selectExpr("1 AS one", "'x' AS x")),
    frame("a column selected twice")(in =>
      in.o.join(in.d, expr(Both)).selectExpr("o.v AS a", "o.v AS b", "d.v", "d.v")
    )
  )

  private val selfBound = "a.id = b.id AND b.t > a.t AND b.t <= a.t + INTERVAL 10 MINUTES"
  private val clicks = "CREATE TEMP VIEW clicks AS SELECT id, t, v FROM o"

  private val selves = sqls(
    "EXISTS in the ON" ->
      s"SELECT o.v, d.v AS w FROM o JOIN d ON $Both AND (o.v > 3 OR EXISTS (SELECT 1 FROM names n WHERE n.id = d.id))",
    "EXISTS in the ON of a left semi join" ->
      s"SELECT o.id, o.v FROM o LEFT SEMI JOIN d ON $Both AND (o.v > d.v OR EXISTS (SELECT 1 FROM names n WHERE n.id = o.id))",
    "a CTE in two places" ->
      s"WITH x AS (SELECT * FROM o WHERE v > 0) SELECT a.v, b.v AS w FROM x a, x b WHERE $selfBound",
    "a CTE of a CTE" ->
      s"WITH x AS (SELECT * FROM o), y AS (SELECT id, t, v + 1 AS v FROM x) SELECT a.v, b.v AS w FROM x a JOIN y b ON $selfBound",
    "a CTE that joins" ->
      s"WITH x AS (SELECT o.id, o.v, d.v AS w FROM o JOIN d ON $Both) SELECT id, v + w AS s FROM x WHERE w > 0",
    "subqueries in FROM" ->
      s"SELECT o.v, d.v AS w FROM (SELECT id, t, v FROM o) o JOIN (SELECT t, id, v FROM d) d ON $Both"
  ) ++ sqls(
    "EXISTS in the ON of a left join" ->
      s"SELECT o.id, o.v, d.v AS w FROM o LEFT JOIN d ON $Both AND EXISTS (SELECT 1 FROM names n WHERE n.id = o.id) WHERE o.t IS NOT NULL",
    "a correlated IN in the ON of a left join" ->
      s"SELECT o.id, o.v, d.v AS w FROM o LEFT JOIN d ON $Both AND o.id IN (SELECT n.id FROM names n WHERE n.id <> concat(o.id, 'x')) WHERE o.t IS NOT NULL",
    "IN in the ON of a left join" ->
      s"SELECT o.id, o.v, d.v AS w FROM o LEFT JOIN d ON $Both AND o.id IN (SELECT n.id FROM names n) WHERE o.t IS NOT NULL"
  ).map(_.whole) ++ Seq(
    sql("a view joined with itself")(
      clicks,
      s"SELECT a.id, a.v, b.v AS w FROM clicks a JOIN clicks b ON $selfBound"
    ),
    sql("a view joined with itself, left outer")(
      clicks,
      s"SELECT a.id, a.v, b.v AS w FROM clicks a LEFT JOIN clicks b ON $selfBound WHERE a.t IS NOT NULL"
    ).whole,
    sql("a view joined with itself, left semi")(
      clicks,
      s"SELECT a.id, a.v FROM clicks a LEFT SEMI JOIN clicks b ON $selfBound"
    ),
    sql("a view joined with a view on top of it")(
      clicks,
      "CREATE TEMP VIEW big AS SELECT id, t, v + 1 AS v FROM clicks WHERE v > 2",
      s"SELECT a.id, a.v, b.v AS w FROM clicks a JOIN big b ON $selfBound"
    ),
    sql("two views of one stream, with renamed columns")(
      "CREATE TEMP VIEW starts AS SELECT id, t AS began, v FROM o WHERE v < 4",
      "CREATE TEMP VIEW ends AS SELECT id AS key, t AS ended, v AS w FROM o WHERE v > 1",
      "SELECT * FROM starts JOIN ends ON id = key AND ended BETWEEN began AND began + INTERVAL 10 MINUTES"
    ),
    sql("a view joined with itself, USING")(
      clicks,
      "SELECT id, a.v, b.v AS w FROM clicks a JOIN clicks b USING (id) WHERE b.t BETWEEN a.t AND a.t + INTERVAL 5 MINUTES"
    ),
    frame("self-join by toDF") { in =>
      val events = in.raw("o").withWatermark("t", "10 minutes")
      val renamed = events.toDF("id", "t2", "v2")
      events
        .as("a")
        .join(renamed.as("b"), expr("a.id = b.id AND b.t2 BETWEEN a.t AND a.t + INTERVAL 10 MINUTES"))
    },
    frame("self-join by aliases") { in =>
      val events = in.raw("o").withWatermark("t", "10 minutes")
      events.as("a").join(events.as("b"), expr(selfBound)).select("a.v", "b.v")
    },
    frame("self-join by renamed columns") { in =>
      val events = in.raw("o").withWatermark("t", "10 minutes")
      val other =
        events.withColumnRenamed("t", "s").withColumnRenamed("v", "w").withColumnRenamed("id", "key")
      events.join(other, expr("id = key AND s BETWEEN t AND t + INTERVAL 10 MINUTES"))
    },
    frame("self-join of filters, full outer") { in =>
      val events = in.raw("o").withWatermark("t", "10 minutes").where("id IS NOT NULL AND t IS NOT NULL")
      events
        .where("v > 2")
        .as("a")
        .join(events.where("v <= 2").as("b"), expr(selfBound), "full_outer")
        .select("a.id", "a.v", "b.v")
    }.whole,
    frame("self-join by selects of the same names") { in =>
      val events = in.raw("o").withWatermark("t", "10 minutes")
      val (a, b) = (events.select("id", "t", "v").as("a"), events.selectExpr("id", "t", "v * 2 AS v").as("b"))
      a.join(b, expr(selfBound)).selectExpr("a.*", "b.v AS w")
    },
    frame("self-join, aliased columns of the same name") { in =>
      val events = in.raw("o").withWatermark("t", "10 minutes")
      val (a, b) = (
        events.selectExpr("id AS id", "t AS t", "v AS v").as("a"),
        events.selectExpr("id AS id", "t AS t", "v AS v").as("b")
      )
      a.join(b, expr(selfBound), "left_outer").where("a.t IS NOT NULL").select("a.v", "b.v")
    }.whole,
    sql("a view that joins")(
      s"CREATE TEMP VIEW pairs AS SELECT o.id, o.v, d.v AS w FROM o JOIN d ON $Both",
      "SELECT p.*, name FROM pairs p JOIN names n ON p.id = n.id"
    )
  )

  private val outer = sqls(
    "left outer" -> s"SELECT o.id, o.v, d.v AS w FROM o LEFT JOIN d ON $Both WHERE $Timed",
    "right outer" -> s"SELECT d.id, d.v, o.v AS w FROM o RIGHT JOIN d ON $Both WHERE d.t IS NOT NULL",
    "left outer, only rows without a match" ->
      s"SELECT o.id, o.v FROM o LEFT JOIN d ON $Both WHERE d.id IS NULL AND $Timed",
    "full outer that a filter turns into left" ->
      s"SELECT o.id, d.v FROM o FULL JOIN d ON $Both WHERE o.v > 1 AND $Timed",
    "left outer, with a condition on the right side" ->
      s"SELECT o.id, o.v, d.v AS w FROM o LEFT JOIN d ON $Both AND d.v > 2 WHERE $Timed",
    "left outer, coalesce" -> s"SELECT coalesce(d.v, -1) AS w, o.id FROM o LEFT JOIN d ON $Both WHERE $Timed"
  ).map(_.whole) ++ Seq(
    frame("full outer") { in =>
      val (o, d) = (in.o.where(s"id IS NOT NULL AND $Timed"), in.d.where("id IS NOT NULL AND t IS NOT NULL"))
      o.join(d, expr(Both), "full_outer").selectExpr("o.id", "o.v", "d.id AS i", "d.v AS w")
    }.whole,
    sql("left semi")(s"SELECT * FROM o LEFT SEMI JOIN d ON $Both"),
    sql("left outer that a filter turns into inner")(
      s"SELECT o.id, d.v FROM o LEFT JOIN d ON $Both WHERE d.v > 1"
    )
  )

  private val rejected = Seq(
    sql("no time bound")("SELECT o.v, d.v AS w FROM o JOIN d ON o.id = d.id").rejected(
      "STREAMJOIN_UNBOUNDED"
    ),
    sql("a lower bound only")("SELECT o.v, d.v AS w FROM o JOIN d ON o.id = d.id AND d.t >= o.t").rejected(
      "STREAMJOIN_UNBOUNDED"
    ),
    sql("a bound inside an OR")(s"SELECT o.v, d.v AS w FROM o JOIN d ON o.id = d.id AND ($Bound OR o.v = 1)")
      .rejected("STREAMJOIN_BOUND_IN_OR"),
    sql("a bound in months")(
      "SELECT o.v, d.v AS w FROM o JOIN d ON o.id = d.id AND d.t BETWEEN o.t AND o.t + INTERVAL 1 MONTH"
    ).rejected("STREAMJOIN_BOUND_NOT_CONSTANT"),
    sql("a bound that varies by row")(
      "SELECT o.v, d.v AS w FROM o JOIN d ON o.id = d.id AND d.t BETWEEN o.t AND o.t + make_interval(0, 0, 0, 0, 0, o.v)"
    ),
    sql("no watermarks")(s"SELECT o.v, d.v AS w FROM raw_o o JOIN raw_d d ON $Both")
      .rejected("STREAMJOIN_NO_WATERMARK"),
    sql("a watermark on one side only")(s"SELECT o.v, d.v AS w FROM o JOIN raw_d d ON $Both")
      .rejected("STREAMJOIN_NO_WATERMARK"),
    sql("left outer, a lower bound only")(
      s"SELECT o.id, o.v, d.v AS w FROM o LEFT JOIN d ON o.id = d.id AND o.t >= d.t - INTERVAL 20 MINUTES WHERE $Timed"
    ).whole.rejected("STREAMJOIN_UNBOUNDED"),
    frame("a rejected join above ours") { in =>
      val pairs = in.o.join(in.d, expr(Both)).selectExpr("o.id", "o.v", "d.v AS w").as("p")
      pairs.join(in.raw("e").as("e"), expr("p.id = e.id AND p.v = e.v")).select("p.id", "p.w", "e.v")
    }.beside("STREAMJOIN_UNBOUNDED"),
    frame("ours above a rejected join") { in =>
      val pairs = in.o
        .join(in.raw("d").as("d"), expr("o.id = d.id AND o.v = d.v"))
        .selectExpr("o.id", "o.t", "o.v")
        .as("p")
      pairs
        .join(in.e, expr("p.id = e.id AND e.t BETWEEN p.t AND p.t + INTERVAL 10 MINUTES"))
        .select("p.id", "p.v", "e.v")
    }.rejected("STREAMJOIN_UNBOUNDED")
  )

  val cases: Seq[ParityCase] = plain ++ frames ++ selves ++ outer ++ rejected
}
