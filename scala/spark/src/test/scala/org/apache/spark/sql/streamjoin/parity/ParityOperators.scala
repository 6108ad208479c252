package org.apache.spark.sql.streamjoin.parity

import org.apache.spark.sql.Encoders
import org.apache.spark.sql.functions.{col, count, expr, max, window}
import org.apache.spark.sql.streaming.{GroupState, GroupStateTimeout, OutputMode}

import ParityCase.{frame, sql, sqls}

/** Other operators below, above and next to a join. */
private[streamjoin] object ParityOperators {
  import ParityPairs.{Both, leftOuter, padded, pairs}

  private val tables = sqls(
    "a table below" ->
      s"SELECT o.name, d.v AS w FROM (SELECT o.*, name FROM o JOIN names n ON o.id = n.id) o JOIN d ON $Both",
    "a table above" -> s"SELECT o.id, name, d.v AS w FROM o JOIN d ON $Both JOIN names n ON n.id = o.id",
    "a table above, left outer" ->
      s"SELECT o.id, name, d.v AS w FROM o JOIN d ON $Both LEFT JOIN names n ON n.id = o.id",
    "a table first" -> s"SELECT n.name, o.v, d.v AS w FROM names n JOIN o ON n.id = o.id JOIN d ON $Both",
    "tables on both sides" ->
      s"SELECT o.name, d.name AS other FROM (SELECT o.*, name FROM names n JOIN o USING (id)) o JOIN (SELECT d.*, name FROM d LEFT JOIN names n USING (id)) d ON $Both",
    "a table, cross joined" -> s"SELECT name, d.v AS w FROM o JOIN d ON $Both CROSS JOIN names",
    "a table, joined by an inequality" ->
      s"SELECT name, d.v AS w FROM o JOIN d ON $Both JOIN names n ON n.id < o.id",
    "IN a table, below" ->
      s"SELECT o.id, d.v AS w FROM (SELECT * FROM o WHERE id IN (SELECT id FROM names)) o JOIN d ON $Both",
    "IN a table, above" ->
      s"SELECT o.id, d.v AS w FROM o JOIN d ON $Both WHERE o.id IN (SELECT id FROM names)",
    "NOT IN a table" ->
      s"SELECT o.id, d.v AS w FROM o JOIN d ON $Both WHERE o.id NOT IN (SELECT id FROM names)",
    "NOT EXISTS in a table, below" ->
      s"SELECT o.id, d.v AS w FROM (SELECT * FROM o WHERE NOT EXISTS (SELECT 1 FROM names n WHERE n.id = o.id)) o JOIN d ON $Both",
    "a scalar subquery in the condition" ->
      s"SELECT o.id, d.v AS w FROM o JOIN d ON $Both WHERE d.v < (SELECT count(*) FROM names)",
    "a correlated scalar subquery" ->
      s"SELECT o.id, (SELECT max(name) FROM names n WHERE n.id = o.id) AS name, d.v AS w FROM o JOIN d ON $Both",
    "VALUES as a table" ->
      s"SELECT o.id, x.n, d.v AS w FROM o JOIN d ON $Both JOIN (VALUES ('a', 1), ('b', 2)) AS x(id, n) ON x.id = o.id"
  ) ++ Seq(
    sql("a table above a left join")(
      s"SELECT p.id, p.w, name FROM (SELECT o.id, d.v AS w FROM o LEFT JOIN d ON $Both WHERE o.t IS NOT NULL) p LEFT JOIN names n ON p.id = n.id"
    ).whole
  )

  private val unions = Seq(
    frame("a union below")(in =>
      in.raw("o").union(in.raw("e")).withWatermark("t", "10 minutes").as("o").join(in.d, expr(Both))
    ),
    frame("a union below, of streams with watermarks") { in =>
      in.marked("o").union(in.marked("e")).as("o").join(in.d, expr(Both))
    },
    frame("a union below, left outer")(in => leftOuter(in.o.union(in.e).as("o"), in.d)).whole,
    frame("a union above")(in => pairs(in).select("id", "w").union(in.raw("e").select("id", "v"))),
    frame("a union of two joins")(in =>
      pairs(in)
        .select("id", "w")
        .union(
          in.e
            .as("e")
            .join(in.d, expr("e.id = d.id AND d.t BETWEEN e.t AND e.t + INTERVAL 5 MINUTES"))
            .select("e.id", "d.v")
        )
    ),
    frame("a limit above a union of two joins") { in =>
      val bound = "e.id = d.id AND d.t BETWEEN e.t AND e.t + INTERVAL 5 MINUTES"
      pairs(in)
        .select("v", "w")
        .union(in.e.as("e").join(in.d, expr(bound)).select("e.v", "d.v"))
        .limit(1000)
    },
    frame("a union by name of two joins of the same streams") { in =>
      pairs(in).select("id", "w").unionByName(pairs(in).where("w > 2").selectExpr("w", "id"))
    },
    frame("a union of a stream with itself below") { in =>
      val o = in.raw("o").withWatermark("t", "10 minutes")
      o.union(o.where("v > 2")).as("o").join(in.d, expr(Both)).select("o.v", "d.v")
    },
    sql("UNION ALL in SQL")(
      s"SELECT x.id, d.v AS w FROM (SELECT id, t FROM o UNION ALL SELECT id, t FROM e) x JOIN d ON x.id = d.id AND d.t BETWEEN x.t AND x.t + INTERVAL 10 MINUTES"
    )
  )

  private val third = "p.id = e.id AND e.t BETWEEN p.t AND p.t + INTERVAL 10 MINUTES"
  private val chains = Seq(
    frame("a chain of inner joins")(in =>
      pairs(in).join(in.e, expr(third)).select("p.id", "p.w", "e.v")
    ).whole,
    frame("a chain, left outer above inner")(in =>
      pairs(in).where("t IS NOT NULL").join(in.e, expr(third), "left_outer").select("p.id", "p.w", "e.v")
    ).whole,
    frame("a chain, inner above left outer")(in =>
      padded(in).join(in.e, expr(third)).select("p.id", "p.w", "e.v")
    ).whole,
    frame("a chain, left outer above left outer")(in =>
      padded(in).join(in.e, expr(third), "left_outer").select("p.id", "p.w", "e.v")
    ).whole,
    frame("a chain, semi above inner")(in =>
      pairs(in).join(in.e, expr(third), "left_semi").select("p.id", "p.w")
    ).whole,
    frame("a chain, inner above semi")(in =>
      in.o.join(in.d, expr(Both), "left_semi").as("p").join(in.e, expr(third)).select("p.id", "p.v", "e.v")
    ).whole,
    frame("a chain that joins its first stream again")(in =>
      pairs(in).join(in.marked("o").as("e"), expr(third)).select("p.id", "p.w", "e.v")
    ).whole,
    frame("a chain with counts per window above")(in =>
      pairs(in).join(in.e, expr(third)).select("p.id", "p.t").groupBy(window(col("t"), "10 minutes")).count()
    ).whole,
    frame("a join of two joins") { in =>
      val other = in.e
        .join(in.marked("d").as("x"), expr("e.id = x.id AND x.t BETWEEN e.t AND e.t + INTERVAL 5 MINUTES"))
        .selectExpr("e.id", "e.t", "x.v")
        .as("q")
      pairs(in)
        .join(other, expr("p.id = q.id AND q.t BETWEEN p.t AND p.t + INTERVAL 5 MINUTES"))
        .select("p.id", "p.w", "q.v")
    }.whole,
    frame("a chain in which a time becomes a number") { in =>
      val numbered = in.o.join(in.d, expr(Both)).selectExpr("o.id", "o.t", "CAST(d.t AS BIGINT) AS s").as("p")
      numbered.join(in.e, expr(third)).select("p.id", "p.s", "e.v")
    }.whole
  )

  private val rows = Seq(
    frame("map above") { in =>
      pairs(in).map(row => row.getString(0) + row.getInt(3))(Encoders.STRING).toDF("text")
    },
    frame("typed filters below") { in =>
      in.raw("o")
        .filter((row: org.apache.spark.sql.Row) => row.getInt(2) > 1)
        .withWatermark("t", "10 minutes")
        .as("o")
        .join(in.d, expr(Both))
    },
    frame("map below, withWatermark after it") { in =>
      import java.sql.Timestamp
      val encoder = Encoders.tuple(Encoders.STRING, Encoders.TIMESTAMP, Encoders.scalaInt)
      val mapped = in
        .raw("o")
        .map(row => (row.getString(0), row.getAs[Timestamp](1), row.getInt(2) + 1))(encoder)
        .toDF("id", "t", "v")
      mapped.withWatermark("t", "10 minutes").as("o").join(in.d, expr(Both))
    },
    frame("explode below")(in =>
      in.wide("o").selectExpr("id", "t", "explode(arr) AS v").as("o").join(in.d, expr(Both))
    ),
    frame("explode above")(in =>
      in.wide("o").join(in.d, expr(Both)).selectExpr("o.id", "explode(o.arr) AS x", "d.v")
    ),
    sql("LATERAL VIEW below and above")(
      s"SELECT o.id, x, d.v AS w FROM wide_o o JOIN d ON $Both LATERAL VIEW posexplode(array(o.v, d.v)) p AS n, x WHERE n = 1"
    ),
    sql("a lateral join per row")(
      s"SELECT o.id, x.s FROM o JOIN d ON $Both, LATERAL (SELECT o.v + d.v AS s) x"
    ),
    frame("repartition below")(in =>
      in.o.repartition(3).as("o").join(in.d.repartition(col("v")).as("d"), expr(Both))
    ),
    frame("coalesce below and above")(in =>
      in.o.coalesce(1).as("o").join(in.d, expr(Both)).coalesce(1).select("o.v", "d.v")
    ),
    frame("repartition above")(in => pairs(in).repartition(3, col("w"))),
    frame("observe() below and above") { in =>
      in.o
        .observe("below", count("*"))
        .as("o")
        .join(in.d, expr(Both))
        .select("o.v", "d.v")
        .observe("above", max("d.v"))
    },
    frame("na.fill above a left join")(in => padded(in).na.fill(0, Seq("w")).drop("t")).whole,
    frame("na.drop below")(in => in.o.na.drop().as("o").join(in.d, expr(Both))),
    frame("to_json above")(in => pairs(in).selectExpr("to_json(struct(*)) AS value")),
    frame("array functions above")(in =>
      in.wide("o")
        .join(in.wide("d"), expr(Both))
        .selectExpr("array_union(o.arr, d.arr)", "transform(o.arr, x -> x + d.v)")
    ),
    frame("several selects below") { in =>
      in.o
        .selectExpr("*", "v * 2 AS x")
        .selectExpr("id", "t", "x + 1 AS v")
        .as("o")
        .join(in.d.withColumn("v", expr("v - 1")).as("d"), expr(s"$Both AND o.v > d.v"))
    }
  )

  private val states = Seq(
    frame("flatMapGroupsWithState above") { in =>
      pairs(in)
        .selectExpr("coalesce(id, '') AS id", "w")
        .as[(String, Int)](Encoders.tuple(Encoders.STRING, Encoders.scalaInt))
        .groupByKey(_._1)(Encoders.STRING)
        .flatMapGroupsWithState(OutputMode.Append, GroupStateTimeout.NoTimeout)(counted)(
          Encoders.scalaInt,
          Encoders.STRING
        )
        .toDF()
    },
    frame("flatMapGroupsWithState below") { in =>
      val counts = in.o
        .where("id IS NOT NULL AND t IS NOT NULL")
        .as[(String, java.sql.Timestamp, Int)](
          Encoders.tuple(Encoders.STRING, Encoders.TIMESTAMP, Encoders.scalaInt)
        )
        .groupByKey(_._1)(Encoders.STRING)
        .flatMapGroupsWithState(OutputMode.Append, GroupStateTimeout.NoTimeout)(newest)(
          Encoders.TIMESTAMP,
          Encoders.tuple(Encoders.STRING, Encoders.TIMESTAMP)
        )
        .toDF("id", "t")
        .withWatermark("t", "10 minutes")
        .as("o")
      counts.join(in.d, expr(Both))
    }
  )

  private def counted(id: String, rows: Iterator[(String, Int)], state: GroupState[Int]): Iterator[String] = {
    val total = state.getOption.getOrElse(0) + rows.size
    state.update(total)
    Iterator(s"$id has $total")
  }

  private def newest(
      id: String,
      rows: Iterator[(String, java.sql.Timestamp, Int)],
      state: GroupState[java.sql.Timestamp]
  ): Iterator[(String, java.sql.Timestamp)] = {
    val last = (state.getOption.iterator ++ rows.map(_._2)).maxBy(_.getTime)
    state.update(last)
    Iterator((id, last))
  }

  val cases: Seq[ParityCase] = tables ++ unions ++ chains ++ rows ++ states
}
