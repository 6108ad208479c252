package org.apache.spark.sql.streamjoin.parity

/** Joins of static tables stay Spark's, whatever the extension's settings say. */
private[streamjoin] object ParityTables {
  import ParityPairs.{Both, Bound}
  private val types = Seq("INNER", "LEFT", "RIGHT", "FULL", "LEFT SEMI", "LEFT ANTI")

  val queries: Seq[String] =
    types.map(how => s"SELECT * FROM o $how JOIN d ON $Both") ++
      types.map(how => s"SELECT * FROM o $how JOIN d ON o.id = d.id") ++
      types.map(how => s"SELECT * FROM o $how JOIN d ON o.t > d.t OR o.v = d.v") ++
      Seq(
        "SELECT o.v, d.v FROM o CROSS JOIN d",
        s"SELECT id, o.v, d.v FROM o JOIN d USING (id) WHERE $Bound",
        "SELECT * FROM o NATURAL JOIN d",
        s"SELECT * FROM o, d, e WHERE $Both AND e.id = d.id",
        "WITH x AS (SELECT id, t, v FROM o) SELECT a.v, b.v FROM x a JOIN x b ON a.id = b.id AND b.t > a.t",
        "SELECT * FROM o WHERE id IN (SELECT id FROM d WHERE d.v > o.v)",
        "SELECT * FROM o WHERE NOT EXISTS (SELECT 1 FROM d WHERE d.id = o.id AND d.t > o.t)",
        "SELECT o.*, (SELECT max(d.v) FROM d WHERE d.id = o.id) FROM o",
        s"SELECT o.id, window(o.t, '10 minutes'), count(*) FROM o LEFT JOIN d ON $Both GROUP BY 1, 2",
        "SELECT * FROM o JOIN LATERAL (SELECT max(v) AS m FROM d WHERE d.id = o.id) x",
        "SELECT DISTINCT o.id FROM o JOIN names n ON o.id = n.id ORDER BY 1 LIMIT 2"
      )

  val settings: Seq[(String, Seq[(String, String)])] = Seq(
    "with default settings" -> Nil,
    "with enabled=off, which is not a boolean" -> Seq("spark.streamjoin.enabled" -> "off"),
    "with other settings, one of them unknown" -> Seq(
      "spark.streamjoin.unbounded" -> "spark",
      "spark.streamjoin.nothing" -> "1",
      "spark.sql.adaptive.enabled" -> "true",
      "spark.sql.autoBroadcastJoinThreshold" -> "-1"
    )
  )
}
