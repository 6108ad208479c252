package org.apache.spark.sql.streamjoin.joins.table

import java.nio.file.{Files, Path}

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.{AnalysisException, DataFrame, Row}

/** Arrangements in SQL by their names: in views, subqueries and commands. */
class TableNamesSuite extends AnyFunSuite with TableTest {

  private lazy val folder = newFolder("arrangements")
  override protected def settings: Map[String, String] = Map("spark.streamjoin.arrangements" -> folder)

  private lazy val people = {
    val people = customersIn(s"$folder/people")
    people.start()
    loaded(people)
    people
  }

  private def orders(): DataFrame = {
    people.running
    val orders = memory(Orders).toDF()
    orders.createOrReplaceTempView("orders")
    orders
  }

  override protected def afterAll(): Unit = {
    people.stop()
    super.afterAll()
  }

  test("a view of a look-up can be created and read") {
    people.running
    val looked = "SELECT p.name, o.item FROM orders o LEFT JOIN people p ON p.id = o.customer_id"
    val query = new Stream({ orders =>
      orders.createOrReplaceTempView("orders")
      spark.sql(s"CREATE OR REPLACE TEMPORARY VIEW looked AS $looked")
      spark.sql("SELECT * FROM looked")
    })
    during(query)(assert(query.add(Row(1, 1, "Mouse"), Row(2, 9, "Key")).all == Seq("- Key", "John Mouse")))
    spark.sql("CREATE TABLE stored_orders (customer_id INT, item STRING) USING parquet")
    try {
      spark.sql(
        "CREATE VIEW kept_look AS SELECT o.item, p.name FROM STREAM stored_orders o JOIN people p ON p.id = o.customer_id"
      )
      assert(spark.table("kept_look").isStreaming)
    } finally
      Seq("VIEW IF EXISTS kept_look", "TABLE stored_orders").foreach(what => spark.sql(s"DROP $what"))
  }

  test("a table in a subquery of an expression is rejected when the query starts") {
    orders()
    for (
      (text, kind) <- Seq(
        "SELECT item FROM orders WHERE customer_id IN (SELECT id FROM people)" -> "IN",
        "SELECT item FROM orders WHERE customer_id NOT IN (SELECT id FROM people)" -> "IN",
        "SELECT item FROM orders o WHERE NOT EXISTS (SELECT 1 FROM people WHERE id = o.customer_id)" -> "EXISTS",
        "SELECT item, (SELECT max(name) FROM people WHERE id = customer_id) FROM orders" -> "a scalar subquery",
        "SELECT item, (SELECT max(name) FROM people) FROM orders" -> "a scalar subquery",
        "WITH p AS (SELECT id FROM people) SELECT item FROM orders WHERE customer_id IN (SELECT id FROM p)" -> "IN"
      )
    ) {
      val frame = spark.sql(text)
      val said = rejected("STREAMJOIN_TABLE.IN_SUBQUERY")(
        frame.writeStream.format("noop").option("checkpointLocation", newFolder()).start()
      )
      assert(said.contains(s"read in $kind"), text)
      assert(said.contains("LEFT JOIN table ON"), text)
    }
    assert(spark.sql("SELECT 1 WHERE 1 IN (SELECT id FROM people)").count() == 1)
  }

  test("DESCRIBE and SHOW COLUMNS know an arrangement, in any case if the catalog ignores it") {
    people.running
    def rows(text: String) = spark.sql(text).collect().map(_.toSeq.take(2).mkString(" ")).toSeq
    assert(rows("DESCRIBE people") == Seq("id int", "name string"))
    assert(rows("DESCRIBE TABLE EXTENDED People").contains("# Keys (id)"))
    assert(rows("SHOW COLUMNS IN people") == Seq("id", "name"))
    assert(rows("SELECT People.name FROM People ORDER BY id") == Seq("John", "Frank"))
    assert(spark.sql("SELECT * FROM STREAM PEOPLE").columns.toSeq == Seq("id", "name", "_version", "_diff"))
    withConf("spark.sql.caseSensitive" -> "true") {
      val error = intercept[AnalysisException](spark.sql("SELECT * FROM People"))
      assert(error.getCondition == "TABLE_OR_VIEW_NOT_FOUND")
    }
    for (text <- Seq("DESCRIBE nobody", "SHOW COLUMNS IN nobody"))
      assert(intercept[AnalysisException](spark.sql(text)).getCondition == "TABLE_OR_VIEW_NOT_FOUND")
    val time = "SELECT * FROM people FOR SYSTEM_TIME AS OF TIMESTAMP '2026-01-01 00:00:00'"
    assert(
      rejected("STREAMJOIN_TABLE.AS_OF_CLOCK")(spark.sql(time)).contains("FROM people WITH (version = 3)")
    )
  }

  test("sj_arrangements() has a row for an arrangement that is damaged") {
    people.running
    Files.createDirectories(Path.of(folder, "damaged"))
    Files.writeString(Path.of(folder, "damaged", "meta.json"), "{}")
    try {
      val rows = spark.sql("SELECT name, rows, problem FROM sj_arrangements()").collect().toSeq
      assert(rows.map(_.getString(0)) == Seq("damaged", "people"))
      assert(rows.map(_.isNullAt(1)) == Seq(true, false))
      assert(rows.head.getString(2).contains("meta.json"), rows.head)
      assert(rows(1).isNullAt(2))
    } finally Files.delete(Path.of(folder, "damaged", "meta.json"))
  }

  test("a name that no folder can have, and a version that is gone, have errors of their own") {
    people.running
    def read(name: String) = spark.read.format("streamjoin").load(name)
    // Not the folder itself, nor the one around it.
    Seq(".", "..").foreach(name => rejected("STREAMJOIN_ARRANGEMENT_NAME")(read(name)))
    val said = rejected("STREAMJOIN_ARRANGEMENT_NAME")(read("db:orders"))
    assert(said.contains("such as db_orders"))
    val missing = intercept[AnalysisException](spark.sql("SELECT * FROM `db:orders`"))
    assert(missing.getCondition == "TABLE_OR_VIEW_NOT_FOUND")
    withConf("spark.streamjoin.arrangements.minVersionsToRetain" -> "1") {
      val short = maintainer("id INT", Seq(Seq("id")), root = s"$folder/short")
      during(short) {
        (1 to 4).foreach(n => short.feed(Row(n)))
        val gone =
          rejected("STREAMJOIN_VERSION_GONE")(spark.sql("SELECT * FROM short WITH (version = 0)").collect())
        assert(gone.contains("newest"))
        assert(!gone.contains("checkpoint"))
        val none =
          rejected("STREAMJOIN_NO_VERSION")(spark.sql("SELECT * FROM short WITH (version = 99)").collect())
        assert(none.contains("FROM t"))
      }
    }
  }

  test("a version that a query names is not looked up at the newest one, and no option is ignored") {
    val named = customersIn(s"$folder/named")
    during(named) {
      loaded(named)
      named.feed(Row(1, "Johnny", "update"))
      def query(text: String) = new Stream({ orders =>
        orders.createOrReplaceTempView("orders")
        spark.sql(s"SELECT p.name, o.item FROM $text")
      })
      val written = query("orders o JOIN named WITH (version = 0) AS p ON p.id = o.customer_id")
      val byKey =
        query("(SELECT customer_id AS id, item FROM orders) AS o JOIN named WITH (version = 0) AS p")
      during(written, byKey) {
        for (each <- Seq(written, byKey))
          assert(each.add(Row(1, 1, "Mouse")).all == Seq("John Mouse"))
      }
      val both = rejected("STREAMJOIN_OPTION")(table(named.root, Map("version" -> "0")))
      assert(both.contains("a table that a stream looks up"))
      val changes = spark.readStream.format("streamjoin").option("version", 0)
      assert(rejected("STREAMJOIN_OPTION")(changes.load(named.root)).contains("in a stream"))
      for (option <- Seq("asOf" -> "previous", "atLeast" -> "1", "rematch" -> "1 hour")) {
        val rows = spark.read.format("streamjoin").options(Map(option))
        assert(rejected("STREAMJOIN_OPTION")(rows.load(named.root)).contains("streamjoin.table"))
      }
    }
  }
}
