package org.apache.spark.sql.streamjoin.front.sql

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.streamjoin.{JoinTest, SparkTest, SqlTest}

import streamjoin.StreamJoin

/** `JOIN ... WITHIN`: where it may stand, and what it means. */
class WithinSuite extends AnyFunSuite with SqlTest {
  import JoinTest._

  override protected def settings: Map[String, String] =
    super.settings + ("spark.sql.shuffle.partitions" -> "1")

  /** What the queries show of the closing rows, which match each other. */
  private val closing = Set("0", "0 0")

  private def rows(query: String): Seq[String] = running(job(sql(query)))(run =>
    run.feed(
      o("a", "10:00:10", 1),
      d("a", "10:00:05", 2),
      d("a", "10:00:15", 3),
      d("a", "10:00:04.999999", 4),
      d("a", "10:00:15.000001", 5),
      o("b", "10:00:10", 6)
    ) ++ run.feed(o("z", "12:00"), d("z", "12:00")).filterNot(closing)
  )

  private val both = Seq("1 2", "1 3")

  /**
   * The plan of each spelling has the same bounds. `make test` runs every sixth one, `make
   * test-long` all of them.
   */
  private def spellings(name: String => String)(queries: String*): Unit =
    for ((query, number) <- queries.zipWithIndex) test(name(query)) {
      views
      val keeps = StreamJoin.bounds(spark.sql(query)).select("keeps").collect().map(_.getString(0)).toSeq
      assert(keeps.size == 2 && keeps.forall(_.endsWith(" kept 5 seconds")), keeps)
      if (SparkTest.isLong || number % 6 == 0) assert(rows(query) == both)
    }

  private val durations =
    Seq(
      "INTERVAL 5 SECONDS",
      "INTERVAL '5' SECOND",
      "INTERVAL '00:05' MINUTE TO SECOND",
      "5s",
      "5 s",
      "5S",
      "5000ms",
      "5 SECONDS",
      "'5 seconds'",
      "'5s'",
      "BETWEEN -5 SECONDS AND 5 SECONDS",
      "BETWEEN -5s AND INTERVAL 5 SECONDS",
      "BETWEEN -INTERVAL 5 SECONDS AND 5s",
      "BETWEEN INTERVAL -5 SECONDS AND 5s"
    )

  spellings(identity)(durations.map(of => s"SELECT o.v, d.v FROM o JOIN d WITHIN $of ON o.id = d.id"): _*)

  test("both limits of BETWEEN are inclusive") {
    val between = "WITHIN BETWEEN 0 SECONDS AND 5s"
    assert(rows(s"SELECT o.v, d.v FROM o JOIN d $between ON o.id = d.id") == Seq("1 3"))
    assert(rows("SELECT o.v, d.v FROM o JOIN d WITHIN 0s ON o.v = 1") == Nil)
  }

  spellings(identity)(
    "SELECT o.v, d.v FROM o JOIN d ON o.id = d.id WITHIN 5s",
    "SELECT x.v, y.v FROM o AS x JOIN d AS y WITHIN 5s ON x.id = y.id",
    "SELECT o.v, d.v FROM o, d WITHIN 5s WHERE o.id = d.id",
    "SELECT o.v, d.v FROM o JOIN d WITHIN 5s USING (id)",
    "SELECT o.v, d.v FROM o JOIN d USING (id) WITHIN 5s",
    "SELECT v, w FROM o NATURAL JOIN (SELECT id, t AS u, v AS w FROM d) WITHIN 5s",
    "SELECT o.v, d.v FROM o /* WITHIN 1s */ JOIN d -- WITHIN 2s\n WITHIN /* of */ 5s ON o.id = d.id",
    "FROM o JOIN d WITHIN 5s ON o.id = d.id SELECT o.v, d.v",
    "FROM o |> JOIN d WITHIN 5s ON o.id = d.id |> SELECT o.v, d.v",
    "WITH p AS (SELECT o.v AS a, d.v AS b FROM o JOIN d WITHIN 5s USING (id)) SELECT a, b FROM p",
    "SELECT a, b FROM (SELECT o.v AS a, d.v AS b FROM (o JOIN d WITHIN 5s USING (id)))",
    "SELECT /*+ BROADCAST(d) */ within.v, over.v FROM o within JOIN d over WITHIN 5s ON within.id = over.id"
  )

  private val named = "(SELECT id, t, v AS within, v AS over FROM o) o JOIN d"

  spellings(query => s"a column named like a clause: $query")(
    s"SELECT o.within, d.v FROM $named WITHIN 5s ON o.id = d.id",
    s"SELECT within, d.v FROM $named WITHIN 5s ON o.id = d.id WHERE within IN (1, within + 5)",
    s"SELECT o.within - 0, d.v FROM $named WITHIN 5s ON o.id = d.id",
    s"SELECT within + 0, d.v FROM $named WITHIN 5s ON o.id = d.id WHERE o.within - 5 < 0",
    s"SELECT within, d.v FROM $named WITHIN 5s ON o.id = d.id WHERE within BETWEEN 1 AND 5",
    s"SELECT within, d.v FROM $named ON o.id = d.id AND within - 5 < d.v WITHIN 5s WHERE within + 1 > within - 1",
    s"SELECT within, d.v FROM $named WITHIN BETWEEN -5s AND 5s ON o.id = d.id AND o.within BETWEEN 1 AND 5",
    s"SELECT CASE WHEN within BETWEEN 1 AND 5 THEN within END, d.v FROM $named WITHIN 5s ON o.id = d.id WHERE NOT within BETWEEN -1 AND 0",
    s"SELECT within, d.v FROM $named WITHIN 5s ON CASE WHEN o.id = d.id THEN true END AND o.id = d.id",
    s"SELECT within, d.v FROM $named ON o.id = d.id AND CASE WHEN within + 1 > 0 THEN true END WITHIN 5s",
    s"SELECT over, d.v FROM $named WITHIN 5s USING (id) WHERE over + 1 > 0",
    s"WITH p AS (SELECT o.within, d.v FROM $named WITHIN 5s USING (id)) SELECT within + 0, v FROM p WHERE within - 1 < 5"
  )

  test("WITHIN works with every join type") {
    def of(how: String, columns: String = "o.v, d.v") =
      rows(s"SELECT $columns FROM o $how JOIN d WITHIN 5s ON o.id = d.id")
    assert(of("LEFT") == both :+ "6 -")
    assert(of("RIGHT").sorted == (both ++ Seq("- 4", "- 5")).sorted)
    assert(of("FULL").sorted == (both ++ Seq("6 -", "- 4", "- 5")).sorted)
    assert(of("LEFT SEMI", "v") == Seq("1"))
    assert(of("LEFT ANTI", "v") == Seq("6"))
  }

  test("a stream can be joined with itself") {
    val query = "SELECT a.v, b.v FROM o a JOIN o b WITHIN BETWEEN 0s AND 1m ON a.id = b.id AND a.v <> b.v"
    val seen = running(job(sql(query)))(_.feed(o("a", "10:00", 1), o("a", "10:01", 2), o("a", "10:03", 3)))
    assert(seen == Seq("1 2"))
  }

  test("in a chain, subqueries choose the time column that counts") {
    val query =
      "SELECT p.v, p.w, r.v FROM (SELECT o.id, o.t, o.v, d.v AS w FROM o JOIN d WITHIN 5s USING (id)) p " +
        "JOIN r WITHIN 10s ON p.id = r.id"
    val seen = running(job(sql(query, "r")))(
      _.feed(
        o("a", "10:00:00", 1),
        d("a", "10:00:05", 2),
        "r" -> row("a", "10:00:10", 3),
        "r" -> row("a", "10:00:11", 4)
      )
    )
    assert(seen == Seq("1 2 3"))
  }
}
