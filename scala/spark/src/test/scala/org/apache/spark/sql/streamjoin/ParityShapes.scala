package org.apache.spark.sql.streamjoin

import org.apache.spark.sql.functions.{col, expr}

import ParityCase.{frame, sql}

/** The ways to write a join of two streams. */
private[streamjoin] object ParityShapes {
  private val Bound = "d.t BETWEEN o.t - INTERVAL 5 MINUTES AND o.t + INTERVAL 20 MINUTES"
  private val Both = s"o.id = d.id AND $Bound"

  val cases: Seq[ParityCase] = Seq(
    sql("JOIN ON", s"SELECT * FROM o JOIN d ON $Both"),
    sql("JOIN USING", s"SELECT id, o.v AS a, d.v AS b FROM o JOIN d USING (id) WHERE $Bound"),
    sql("comma and WHERE", s"SELECT o.*, d.v AS w FROM o, d WHERE $Both"),
    sql(
      "a view joined with itself",
      "CREATE TEMP VIEW clicks AS SELECT id, t, v FROM o",
      """SELECT a.id, a.v, b.v AS w FROM clicks a JOIN clicks b
         ON a.id = b.id AND b.t > a.t AND b.t <= a.t + INTERVAL 10 MINUTES"""
    ),
    frame("self-join by toDF") { in =>
      val events = in.raw("o").withWatermark("t", "10 minutes")
      val renamed = events.toDF("id", "t2", "v2")
      events.as("a").join(renamed.as("b"), expr("a.id = b.id AND b.t2 BETWEEN a.t AND a.t + INTERVAL 10 MINUTES"))
    },
    sql("a CTE in two places", s"WITH x AS (SELECT * FROM o WHERE v > 0) SELECT o.v AS a, d.v AS b FROM x o, x d WHERE $Both"),
    sql("subqueries in FROM", s"SELECT o.v, d.v AS w FROM (SELECT id, t, v FROM o) o JOIN (SELECT t, id, v FROM d) d ON $Both"),
    sql("left outer", s"SELECT o.id, o.v, d.v AS w FROM o LEFT JOIN d ON $Both WHERE o.t IS NOT NULL").whole,
    sql("left outer with null times", s"SELECT o.id, o.t, o.v, d.v AS w FROM o LEFT JOIN d ON $Both").whole,
    sql("right outer", s"SELECT d.id, d.v, o.v AS w FROM o RIGHT JOIN d ON $Both WHERE d.t IS NOT NULL").whole,
    frame("full outer") { in =>
      val (o, d) = (in.o.where("id IS NOT NULL AND t IS NOT NULL"), in.d.where("id IS NOT NULL AND t IS NOT NULL"))
      o.join(d, expr(Both), "full_outer").selectExpr("o.id", "o.v", "d.id AS i", "d.v AS w")
    }.whole,
    sql("left semi", s"SELECT * FROM o LEFT SEMI JOIN d ON $Both"),
    frame("bounds in WHERE after the join") { in =>
      in.o.join(in.d, col("o.id") === col("d.id")).where(Bound).select("o.v", "d.v")
    },
    sql("no bound", "SELECT o.v, d.v AS w FROM o JOIN d ON o.id = d.id").refused("STREAMJOIN_UNBOUNDED")
  )
}
