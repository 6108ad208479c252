package org.apache.spark.sql.streamjoin.joins.delta

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.streamjoin.ArrangementTest
import org.apache.spark.sql.{DataFrame, Row}

/** Delta joins in SQL: in subqueries, common tables and views, and of such. */
class DeltaJoinSqlSuite extends AnyFunSuite with ArrangementTest {
  import ArrangementTest._

  private lazy val folder = newFolder("arrangements")
  override protected def settings: Map[String, String] = Map("spark.streamjoin.arrangements" -> folder)

  private lazy val orders =
    maintainer("k STRING, id INT, op STRING", Seq(Seq("id"), Seq("k")), Some("op"), root = s"$folder/orders")
  private lazy val lines =
    maintainer("k STRING, oid INT, op STRING", Seq(Seq("oid"), Seq("k")), Some("op"), root = s"$folder/lines")

  /** Two orders with a line each, which tests read and do not change. */
  private lazy val shop: Unit = {
    orders.start()
    lines.start()
    orders.feed(Row("a", 1, "insert"), Row("b", 2, "insert"))
    lines.feed(Row("a", 10, "insert"), Row("b", 20, "insert"))
    Seq("orders" -> "xo", "lines" -> "xl").foreach { case (name, view) =>
      spark.sql(s"CREATE TEMPORARY VIEW $view AS SELECT * FROM STREAM $name")
      spark.sql(s"CREATE VIEW p$view AS SELECT * FROM STREAM $name")
    }
  }

  override protected def afterAll(): Unit = {
    Seq("pxo", "pxl").foreach(name => spark.sql(s"DROP VIEW IF EXISTS $name"))
    Seq(orders, lines).foreach(_.stop())
    super.afterAll()
  }

  private val join = "SELECT a.id, b.oid FROM STREAM orders a JOIN STREAM lines b ON a.k = b.k"

  private def query(text: String): DataFrame = {
    shop
    spark.sql(text)
  }

  private def columns(text: String): String = query(text).columns.mkString(" ")

  test("a star over a delta join has _diff, wherever the join stands") {
    for (
      text <- Seq(
        join,
        s"SELECT * FROM ($join)",
        s"SELECT * FROM (SELECT * FROM ($join))",
        s"SELECT x.* FROM ($join) x",
        s"WITH v AS ($join) SELECT * FROM v",
        s"WITH v AS ($join), u AS (SELECT * FROM v) SELECT * FROM u WHERE oid > 0",
        s"SELECT v.* FROM (WITH v AS ($join) SELECT * FROM v) v",
        s"SELECT id, oid, _diff FROM ($join)",
        s"WITH v AS ($join) SELECT id, oid, _diff FROM v",
        s"WITH v AS (SELECT * FROM ($join)) SELECT id, oid, _diff FROM v",
        s"FROM STREAM orders a |> JOIN STREAM lines b ON a.k = b.k |> SELECT a.id, b.oid |> WHERE id > 0",
        s"$join UNION ALL SELECT * FROM ($join)",
        "SELECT id, oid FROM STREAM orders JOIN STREAM lines USING (k)"
      )
    ) assert(columns(text) == "id oid _diff", text)
  }

  test("inputs may be views, common tables and subqueries of changes") {
    for (
      text <- Seq(
        "SELECT a.id, b.oid FROM xo a JOIN xl b ON a.k = b.k",
        "SELECT xo.id, xl.oid FROM xo, xl WHERE xo.k = xl.k",
        "SELECT a.id, b.oid FROM pxo a JOIN pxl b ON a.k = b.k",
        "SELECT a.id, b.oid FROM xo a JOIN STREAM lines b ON a.k = b.k",
        "SELECT * FROM (SELECT a.id, b.oid FROM xo a JOIN xl b ON a.k = b.k)",
        "WITH o AS (SELECT * FROM STREAM orders), l AS (SELECT * FROM STREAM lines) " +
          "SELECT o.id, l.oid FROM o JOIN l ON o.k = l.k",
        "WITH o AS (SELECT k, id FROM xo) SELECT id, oid FROM o JOIN pxl USING (k)",
        "SELECT a.id, b.oid FROM (SELECT * FROM STREAM orders) a JOIN (SELECT oid, k FROM STREAM lines) b ON a.k = b.k",
        "SELECT a.i AS id, oid FROM (SELECT k AS key, id AS i FROM STREAM orders) a JOIN xl ON a.key = k",
        "SELECT id, oid FROM xo NATURAL JOIN (SELECT k, oid FROM xl)"
      )
    ) {
      val frame = query(text)
      assert(frame.columns.mkString(" ") == "id oid _diff", text)
      assert(frame.queryExecution.analyzed.exists(_.isInstanceOf[StreamDeltaJoin]), text)
    }
    // A star has the columns of the rows, however the input is written.
    for (input <- Seq("STREAM orders", "xo", "pxo", "(SELECT * FROM STREAM orders)"))
      assert(columns(s"SELECT * FROM $input a JOIN STREAM lines b ON a.k = b.k") == "k id k oid _diff", input)
  }

  test("filters, computed columns and self-joins of views and common tables have the rows of the tables") {
    shop
    val readers = Map(
      "WITH o AS (SELECT k, id FROM STREAM orders WHERE id > 1) SELECT o.id, l.oid FROM o JOIN xl l ON o.k = l.k" ->
        Map("2 20" -> 1L),
      "SELECT a.n, b.oid FROM (SELECT k, id + 100 AS n FROM xo) a JOIN xl b ON a.k = b.k AND a.n < 102" ->
        Map("101 10" -> 1L),
      "WITH o AS (SELECT * FROM xo) SELECT a.id, b.id FROM o a JOIN o b ON a.k = b.k" ->
        Map("1 1" -> 1L, "2 2" -> 1L),
      "SELECT a.id, b.id FROM pxo a JOIN pxo b ON a.k = b.k" -> Map("1 1" -> 1L, "2 2" -> 1L),
      "SELECT a.id, b.oid FROM xo a LEFT JOIN (SELECT * FROM xl WHERE oid > 10) b ON a.k = b.k" ->
        Map("1 -" -> 1L, "2 20" -> 1L),
      s"WITH v AS ($join) SELECT id, _diff FROM v WHERE oid > 10" -> Map("2" -> 1L),
      // Spark computes what occurs twice in them below an operator.
      "SELECT a.id, b.oid FROM xo a JOIN xl b ON a.k = b.k WHERE a.id + 1 BETWEEN 2 AND 2" ->
        Map("1 10" -> 1L),
      "SELECT a.id, b.oid FROM xo a LEFT JOIN xl b ON a.k = b.k AND b.oid + 1 BETWEEN 20 AND 30" ->
        Map("1 -" -> 1L, "2 20" -> 1L),
      "SELECT nullif(a.id + 1, 2) AS n, b.oid FROM xo a JOIN xl b ON a.k = b.k AND nullif(trim(b.k), 'b') = 'a'" ->
        Map("- 10" -> 1L)
    ).map { case (text, rows) => new Reader(newFolder())(spark.sql(text)) -> rows }
    during(readers.keys.toSeq: _*) {
      readers.foreach { case (reader, rows) =>
        reader.settle()
        assert(reader.sum() == rows)
      }
    }
  }

  test("a column of a key may be equal to a constant") {
    val own = newFolder("of tenants")
    val people = maintainer(
      "tenant STRING, id INT, op STRING",
      Seq(Seq("tenant", "id")),
      Some("op"),
      root = s"$own/people"
    )
    val visits =
      maintainer("v INT, id INT, op STRING", Seq(Seq("v"), Seq("id")), Some("op"), root = s"$own/visits")
    val text = "SELECT p.id, v.v FROM STREAM people p JOIN STREAM visits v ON p.id = v.id AND p.tenant = 'eu'"
    withConf("spark.streamjoin.arrangements" -> own)(during(people, visits) {
      people.feed(Row("eu", 1, "insert"), Row("us", 1, "insert"), Row("us", 2, "insert"))
      visits.feed(Row(10, 1, "insert"), Row(20, 2, "insert"))
      val reader = new Reader(newFolder())(spark.sql(text))
      during(reader) {
        reader.settle()
        visits.feed(Row(11, 1, "insert"), Row(21, 2, "insert"))
        people.feed(Row("eu", 2, "insert"))
        visits.feed(Row(10, 1, "delete"))
        reader.settle()
        assert(reader.sum() == Map("1 11" -> 1L, "2 20" -> 1L, "2 21" -> 1L))
      }
    })
  }

  test("a view of a delta join can be created and read, and passes on what goes") {
    val own = newFolder("more")
    val here =
      maintainer("k STRING, id INT, op STRING", Seq(Seq("id"), Seq("k")), Some("op"), root = s"$own/here")
    val there =
      maintainer("k STRING, id INT, op STRING", Seq(Seq("id"), Seq("k")), Some("op"), root = s"$own/there")
    withConf("spark.streamjoin.arrangements" -> own) {
      during(here, there) {
        here.feed(Row("a", 1, "insert"), Row("b", 2, "insert"))
        there.feed(Row("a", 10, "insert"), Row("b", 20, "insert"))
        val text = "SELECT h.id, t.id AS oid FROM STREAM here h JOIN STREAM there t ON h.k = t.k"
        try {
          spark.sql(s"CREATE TEMPORARY VIEW pairs AS $text")
          spark.sql(s"CREATE VIEW kept_pairs AS SELECT * FROM ($text)")
          val readers =
            Seq("SELECT * FROM pairs", "SELECT oid, id, _diff FROM kept_pairs", s"SELECT * FROM ($text)")
              .map(each => new Reader(newFolder())(spark.sql(each)))
          during(readers: _*) {
            readers.foreach(_.settle())
            here.feed(Row(null, 1, "delete"))
            readers.foreach(_.settle())
            assert(readers.map(_.sum()) == Seq("2 20", "20 2", "2 20").map(row => Map(row -> 1L)))
            assert(readers.forall(_.batches(1).flatten.map(_.getLong(2)) == Seq(-1L)))
          }
        } finally spark.sql("DROP VIEW IF EXISTS kept_pairs"): Unit
      }
    }
  }

  test("a query around a delta join that loses what goes is rejected") {
    for (
      text <- Seq(
        s"SELECT id FROM ($join)",
        s"WITH v AS ($join) SELECT id FROM v WHERE oid > 0",
        s"SELECT count(*) FROM ($join)",
        s"SELECT id, oid FROM ($join) UNION ALL SELECT 1, 2",
        "SELECT id FROM (SELECT a.id, b.oid FROM xo a JOIN xl b ON a.k = b.k) WHERE id > 0"
      )
    ) {
      val said = rejected("STREAMJOIN_DELTA.DIFF_LEFT_OUT")(query(text))
      assert(said.contains("drops _diff"), text)
      assert(said.contains("_diff > 0"), text)
    }
    for (
      text <- Seq(
        s"SELECT id FROM ($join) WHERE _diff > 0",
        s"SELECT id, sum(_diff) AS n FROM ($join) GROUP BY id",
        s"SELECT id, oid * _diff AS change FROM ($join)",
        s"WITH v AS ($join) SELECT id FROM (SELECT *, _diff AS n FROM v) WHERE n = 1",
        "SELECT id FROM STREAM orders"
      )
    ) assert(!columns(text).contains("oid "), text)
  }

  test("joins of such inputs that are no delta join are rejected, as those of the names are") {
    def said(condition: String, text: String) = rejected(condition)(query(text)): Unit
    said("STREAMJOIN_DELTA.MORE_THAN_JOINS", "SELECT count(*) FROM xo a JOIN xl b ON a.k = b.k")
    said("STREAMJOIN_DELTA.MORE_THAN_JOINS", "SELECT DISTINCT a.id FROM xo a JOIN xl b ON a.k = b.k")
    said("STREAMJOIN_DELTA.MORE_THAN_JOINS", "SELECT a.id FROM xo a LEFT ANTI JOIN xl b ON a.k = b.k")
    said("STREAMJOIN_DELTA.NATURAL", "SELECT id FROM STREAM orders NATURAL JOIN STREAM lines")
    said(
      "STREAMJOIN_DELTA.COMPUTED_BELOW_OUTER",
      "SELECT a.id, b.n FROM xo a LEFT JOIN (SELECT k, oid + 1 AS n FROM xl) b ON a.k = b.k"
    )
  }

  test("a stream that chooses among the changes is an ordinary stream") {
    // So it is a join by time, whose inputs may not take rows back.
    for (
      (text, condition) <- Seq(
        "SELECT a.id FROM (SELECT * FROM STREAM orders WHERE _diff > 0) a JOIN xl b ON a.k = b.k" ->
          "STREAMJOIN_RETRACTIONS.RIGHT",
        "SELECT a.id FROM (SELECT k, id, _version AS v FROM STREAM orders) a JOIN xl b ON a.k = b.k" ->
          "STREAMJOIN_RETRACTIONS.LEFT"
      )
    ) {
      val frame = query(text)
      assert(!frame.queryExecution.analyzed.exists(_.isInstanceOf[StreamDeltaJoin]), text)
      rejected(condition)(frame.writeStream.format("noop").start())
    }
  }
}
