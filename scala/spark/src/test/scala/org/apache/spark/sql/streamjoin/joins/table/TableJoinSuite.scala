package org.apache.spark.sql.streamjoin.joins.table

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.functions._
import org.apache.spark.sql.streamjoin.{ArrangementTest, SparkTest}
import org.apache.spark.sql.{AnalysisException, DataFrame, Row}

/**
 * Joins of a stream with a table, that is, an arrangement; the examples are those of the Lenses
 * document.
 */
class TableJoinSuite extends AnyFunSuite with TableTest {
  import ArrangementTest._

  private def joined(root: String, how: String, options: Map[String, String] = Map.empty)(
      orders: DataFrame
  ): DataFrame = {
    val customers = table(root, options)
    orders
      .join(customers, customers("id") === orders("customer_id"), how)
      .select(customers("name"), orders("item"))
  }

  private val items = Seq(Row(1, 1, "Computer"), Row(2, 1, "Mouse"), Row(3, 3, "Keyboard"))

  test("inner, left and right joins with a table") {
    withCustomers { people =>
      val inner = new Stream(joined(people.root, "inner"))
      val left = new Stream(joined(people.root, "left_outer"))
      val right = new Stream(orders => {
        val names = table(people.root)
        val joined = names.join(orders, names("id") === orders("customer_id"), "right_outer")
        joined.select(names("name"), orders("item"))
      })
      during(inner, left, right) {
        Seq(inner, left, right).foreach(_.add(items: _*))
        assert(inner.all == Seq("John Computer", "John Mouse"))
        val all = Seq("- Keyboard", "John Computer", "John Mouse")
        assert(left.all == all)
        assert(right.all == all)
      }
    }
  }

  test("a filter turns a right join into an inner join") {
    withCustomers { people =>
      val query = new Stream({ orders =>
        orders.createOrReplaceTempView("orders_of_right")
        table(people.root).createOrReplaceTempView("people_of_right")
        spark.sql(
          "SELECT p.name, o.item FROM people_of_right p RIGHT JOIN orders_of_right o ON p.id = o.customer_id WHERE p.name = 'John'"
        )
      })
      during(query)(assert(query.add(items: _*).all == Seq("John Computer", "John Mouse")))
      during(query)(assert(query.add(items.head).next == Seq("John Computer", "John Computer", "John Mouse")))
    }
  }

  test("a row sees the table as of its batch, and later changes do not change it") {
    val people = customers
    val query = new Stream(joined(people.root, "left_outer"))
    during(people) {
      during(query) {
        query.add(items.head)
        assert(query.next == Seq("- Computer"), "before the first version")
        loaded(people)
        query.add(items(1))
        assert(query.next == Seq("John Mouse"))
        people.feed(Row(1, "Johnny", "update"))
        assert(query.next.isEmpty, "a new version alone runs no batch")
        query.add(items(1))
        assert(query.next == Seq("Johnny Mouse"))
        people.feed(Row(1, "", "delete"))
        query.add(items(1))
        assert(query.next == Seq("- Mouse"))
      }
    }
  }

  test("a cached table is still looked up as of each batch") {
    withCustomers { people =>
      def named(cached: DataFrame)(orders: DataFrame) =
        orders.join(cached, expr("id = customer_id"), "left_outer").select("name", "item")
      def frame = table(people.root)
      def persisted = frame.cache()
      lazy val inSql = {
        frame.createOrReplaceTempView("people_to_cache")
        spark.sql("CACHE TABLE people_to_cache")
        spark.table("people_to_cache")
      }
      val before = Seq(
        named(persisted) _,
        named(frame.where("id > 0").select("id", "name").cache()) _,
        named(inSql) _
      )
      val later = frame.select("name", "id")
      val queries = (before :+ named(later) _).map(new Stream(_))
      during(queries: _*) {
        queries.foreach(_.add(items.head))
        queries.foreach(query => assert(query.next == Seq("John Computer")))
        later.cache().count()
        people.feed(Row(1, "Johnny", "update"))
        queries.foreach(_.add(items(1)))
        queries.foreach(query => assert(query.next == Seq("Johnny Mouse")))
        // In a batch query the cache is used, as usual.
        assert(later.where("id = 1").select("name").collect().toSeq == Seq(Row("John")))
      }
      spark.catalog.clearCache()
    }
  }

  test("a batch that runs again sees the version it saw before") {
    withCustomers { people =>
      val query = new Stream(joined(people.root, "left_outer"))
      during(query)(assert(query.add(items.head).all == Seq("John Computer")))
      SparkTest.forgetCommit(query.checkpoint)
      (1 to 5).foreach { number =>
        people.feed(Row(1, s"John $number", "update"))
        forgetIndexes()
      }
      during(query) {
        assert(query.all == Seq("John Computer"))
        assert(query.add(items(1)).all == Seq("John 5 Mouse", "John Computer"))
      }
    }
  }

  test("asOf=previous looks up the version before the newest") {
    withCustomers { people =>
      val query = new Stream(joined(people.root, "left_outer", Map("asOf" -> "previous")))
      during(query) {
        assert(query.add(items.head).next == Seq("- Computer"))
        people.feed(Row(1, "Johnny", "update"))
        assert(query.add(items.head).next == Seq("John Computer"))
      }
    }
  }

  test("with atLeast, a stream does not start before its table has loaded") {
    withCustomers { people =>
      val query = new Stream(joined(people.root, "left_outer", Map("atLeast" -> "1")))
      during(query) {
        query.add(items.head)
        people.feed(Row(1, "Johnny", "update"))
        assert(query.all == Seq("Johnny Computer"))
      }
    }
  }

  test("of two look-ups of one table, the one with atLeast makes the query wait") {
    withCustomers { people =>
      val query = new Stream({ orders =>
        orders
          .join(table(people.root, Map("atLeast" -> "1")).toDF("a", "buyer"), expr("a = customer_id"))
          .join(table(people.root).toDF("b", "payer"), expr("b = order_id"))
          .select("item", "buyer", "payer")
      })
      during(query) {
        query.add(Row(2, 1, "Cup"))
        people.feed(Row(1, "Johnny", "update"))
        assert(query.all == Seq("Cup Johnny Frank"))
      }
    }
  }

  test("copies of a row match as often as they exist, with conditions on either side") {
    val rates = maintainer("k INT, v INT, d LONG", Seq(Seq("k", "v"), Seq("k")), diff = Some("d"))
    def query(how: String) = new Stream({ orders =>
      val rows = table(rates.root).where("v < 100")
      orders
        .join(
          rows,
          orders("customer_id") + 1 === rows("k") && rows("v") > 5 && orders("item") =!= "Mouse",
          how
        )
        .select("item", "v")
    })
    val (inner, left) = (query("inner"), query("left_outer"))
    during(rates) {
      rates.feed(Row(2, 7, 2L), Row(2, 3, 1L), Row(2, 200, 1L), Row(4, 9, 1L), Row(4, 10, -1L))
      during(inner, left) {
        Seq(inner, left).foreach(_.add(items: _*))
        val matches = Seq("Computer 7", "Computer 7", "Keyboard 9")
        assert(inner.all == matches)
        assert(left.all == (matches :+ "Mouse -").sorted)
      }
    }
  }

  test("an aggregation and a stream join above the look-up use the watermark of the stream") {
    withCustomers { people =>
      def named(orders: DataFrame) = {
        val names = table(people.root)
        timed(orders).join(names, col("customer_id") === names("id")).select("name", "item", "at")
      }
      val counts = new Stream(orders =>
        named(orders).groupBy(window(col("at"), "10 seconds"), col("name")).count().select("name", "count")
      )
      val pairs = new Stream(orders => {
        val others = timed(orders).select(col("item").as("other"), col("at").as("then"))
        named(orders)
          .join(others, expr("item = other AND then BETWEEN at AND at + INTERVAL 5 SECONDS"))
          .select("name", "item")
      })
      during(counts, pairs) {
        // watermark 25 s: the window from 0 s to 10 s is complete
        Seq(counts, pairs).foreach(_.add(items :+ Row(25, 2, "Screen"): _*))
        assert(counts.all == Seq("John 2"))
        assert(pairs.all == Seq("Frank Screen", "John Computer", "John Mouse"))
      }
    }
  }

  test("SQL: a table is joined by the name of its arrangement") {
    val folder = newFolder("arrangements")
    withConf("spark.streamjoin.arrangements" -> folder) {
      val people = customersIn(s"$folder/people")
      def query(join: String) = new Stream({ orders =>
        orders.createOrReplaceTempView("orders_of_sql")
        spark.sql(s"SELECT p.name, o.item FROM orders_of_sql AS o $join")
      })
      val byName = query("JOIN people AS p ON p.id = o.customer_id")
      val asOf = query("LEFT JOIN people FOR SYSTEM_TIME AS OF NOW() AS p ON p.id = o.customer_id")
      val right = new Stream({ orders =>
        orders.createOrReplaceTempView("orders_of_sql")
        spark.sql(
          "SELECT people.name, o.item FROM people RIGHT JOIN orders_of_sql AS o ON people.id = o.customer_id"
        )
      })
      during(people) {
        loaded(people)
        during(byName, asOf, right) {
          Seq(byName, asOf, right).foreach(_.add(items: _*))
          assert(byName.all == Seq("John Computer", "John Mouse"))
          assert(asOf.all == Seq("- Keyboard", "John Computer", "John Mouse"))
          assert(right.all == Seq("- Keyboard", "John Computer", "John Mouse"))
        }
        val names = spark.sql("SELECT name FROM people ORDER BY id").collect().map(_.getString(0))
        assert(names.toSeq == Seq("John", "Frank"))
        rejected("STREAMJOIN_TABLE.AS_OF_CLOCK")(
          spark.sql("SELECT * FROM people FOR SYSTEM_TIME AS OF TIMESTAMP '2026-01-01 00:00:00'")
        )
        spark.range(3).createOrReplaceTempView("people")
        try assert(spark.sql("SELECT * FROM people").columns.toSeq == Seq("id"), "a view takes precedence")
        finally spark.catalog.dropTempView("people"): Unit
      }
    }
  }

  test("a view's own table takes precedence over an arrangement of the same name") {
    val folder = newFolder("arrangements")
    withConf("spark.streamjoin.arrangements" -> folder) {
      val people = customersIn(s"$folder/people")
      during(people)(loaded(people))
      val current = spark.catalog.currentDatabase
      spark.sql("CREATE DATABASE of_view")
      try {
        spark.sql("USE of_view")
        spark.sql("CREATE TABLE people USING parquet AS SELECT 7 AS seven")
        spark.sql("CREATE VIEW known AS SELECT * FROM people")
        spark.sql("CREATE TEMP VIEW known_now AS SELECT * FROM people")
        spark.sql(s"USE $current")
        for (name <- Seq("of_view.known", "known_now"))
          assert(spark.table(name).collect().toSeq == Seq(Row(7)), name)
        assert(spark.sql("SELECT * FROM people").count() == 2)
      } finally {
        spark.sql(s"USE $current")
        spark.catalog.dropTempView("known_now")
        spark.sql("DROP DATABASE of_view CASCADE"): Unit
      }
    }
  }

  test("a view may have a name that no folder can have") {
    withConf("spark.streamjoin.arrangements" -> newFolder("arrangements")) {
      spark.sql("CREATE TEMP VIEW `a:b` AS SELECT 1 AS id")
      try assert(spark.sql("SELECT * FROM `a:b`").count() == 1)
      finally spark.sql("DROP VIEW `a:b`"): Unit
      val missing = intercept[AnalysisException](spark.sql("SELECT * FROM `c:d`"))
      assert(missing.getCondition == "TABLE_OR_VIEW_NOT_FOUND")
    }
  }

  test("SQL: a join without a condition uses the declared key") {
    val folder = newFolder("arrangements")
    withConf("spark.streamjoin.arrangements" -> folder) {
      val people = customersIn(s"$folder/people")
      val towns = maintainer("id LONG, town STRING", Seq(Seq("id")), root = s"$folder/towns")
      def query(id: String, text: String) = new Stream({ orders =>
        orders.selectExpr(s"$id AS id", "customer_id", "item").createOrReplaceTempView("orders_of_sql")
        spark.sql(text)
      })
      val inner = query("customer_id", "SELECT p.name, o.item FROM orders_of_sql AS o JOIN people AS p")
      // The key types are cast to a common one.
      val right =
        query(
          "CAST(customer_id AS LONG)",
          "SELECT people.name, o.item FROM people RIGHT JOIN orders_of_sql AS o"
        )
      val from = "FROM orders_of_sql AS o"
      val comma = query("order_id", s"SELECT p.name, o.item $from, people AS p WHERE o.customer_id = p.id")
      // The condition is in an outer block: USING makes a block of its own.
      val using = query(
        "order_id",
        s"SELECT p.name, o.item $from JOIN people AS p JOIN (VALUES ('Mouse')) AS i(item) USING (item) WHERE o.customer_id = p.id"
      )
      val outer =
        query("order_id", s"SELECT name, item FROM (SELECT * $from JOIN people AS p) WHERE customer_id < 3")
      // The condition knows the columns of both inputs by other names.
      val renamed = query(
        "order_id",
        s"SELECT name, item FROM (SELECT customer_id AS buyer, p.id AS person, name, item $from JOIN people AS p) WHERE buyer = person"
      )
      during(people, towns) {
        loaded(people)
        during(inner, right, comma, using, outer, renamed) {
          Seq(inner, right, comma, using, outer, renamed).foreach(_.add(items: _*))
          assert(inner.all == Seq("John Computer", "John Mouse"))
          assert(right.all == Seq("- Keyboard", "John Computer", "John Mouse"))
          assert(comma.all == Seq("John Computer", "John Mouse"), "the condition counts, not the key")
          assert(using.all == Seq("John Mouse"))
          assert(outer.all == Seq("Frank Mouse", "John Computer"))
          assert(renamed.all == Seq("John Computer", "John Mouse"), "the condition counts, not the key")
        }
        def start(text: String): Any = during(query("order_id", text))(())
        rejected("STREAMJOIN_TABLE.JOIN_TYPE")(start(s"SELECT * $from CROSS JOIN people"))
        rejected("STREAMJOIN_TABLE_KEY")(
          start("SELECT * FROM (SELECT customer_id, item FROM orders_of_sql) AS o JOIN people")
        )

        towns.feed(Row(1L, "Ulm"))
        val both = new Reader(newFolder())(
          spark.sql("SELECT name, town FROM STREAM people AS p LEFT JOIN STREAM towns AS t")
        )
        during(both) {
          both.settle()
          assert(both.sum() == Map("John Ulm" -> 1L, "Frank -" -> 1L))
        }
        val keys = maintainer("k INT", Seq(Seq("k")), root = s"$folder/others")
        during(keys) {
          rejected("STREAMJOIN_DELTA_CONDITION")(
            spark.sql("SELECT * FROM STREAM people AS p JOIN STREAM others AS t")
          )
        }
      }
    }
  }

  test("a condition over both sides decides which rows of a key match, in a left join too") {
    val folder = newFolder("arrangements")
    val people = customersIn(s"$folder/people")
    val both = "id = customer_id AND (name < item OR name = 'Frank')"
    def named(how: String, options: Map[String, String] = Map.empty)(orders: DataFrame) =
      orders.join(table(people.root, options), expr(both), how).select("name", "item")
    val sql = new Stream({ orders =>
      orders.createOrReplaceTempView("orders_of_both")
      val now = "people FOR SYSTEM_TIME AS OF NOW()"
      spark.sql(s"SELECT name, item FROM orders_of_both LEFT JOIN $now ON $both")
    })
    val above = new Stream(
      _.join(table(people.root), expr("id = customer_id"))
        .where("name < item OR name = 'Frank'")
        .select("name", "item")
    )
    val queries = Seq(new Stream(named("left_outer")), sql, new Stream(named("inner")), above)
    val waiting = new Stream(orders => named("left_outer", rematch)(timed(orders)))
    withConf("spark.streamjoin.arrangements" -> folder)(during(people) {
      loaded(people)
      during(queries :+ waiting: _*) {
        val rows = Seq(Row(1, 1, "Computer"), Row(2, 1, "Mouse"), Row(3, 2, "Car"), Row(4, 3, "Z"))
        (queries :+ waiting).foreach(_.add(rows: _*))
        val matched = Seq("Frank Car", "John Mouse")
        queries.take(2).foreach(query => assert(query.next == Seq("- Computer", "- Z") ++ matched))
        queries.drop(2).foreach(query => assert(query.next == matched))
        assert(waiting.next == Seq("- Computer", "- Z") ++ matched)
        people.feed(Row(1, "Ann", "update"), Row(3, "Zoe", "insert"))
        // Zoe fits the key of Z, but not the condition.
        waiting.add(Row(5, 9, "x"))
        assert(waiting.next == Seq("- x", "Ann Computer"))
      }
    })
  }

  private val keyTypes = Seq[(String, String, Double => Any)](
    ("DOUBLE", "x", x => x),
    ("FLOAT", "x", x => x.toFloat),
    ("STRUCT<x: DOUBLE, y: STRUCT<z: DOUBLE>>", "struct(x, struct(x AS z) AS y)", x => Row(x, Row(x))),
    ("ARRAY<DOUBLE>", "array(x)", x => Seq(x))
  )

  for ((dataType, key, toKey) <- SparkTest.part(keyTypes, every = 4, from = 2))
    test(s"keys may be $dataType: equal as in SQL") {
      val measures = maintainer(s"id $dataType, name STRING", Seq(Seq("id")), op = None)
      def joined(condition: String)(orders: DataFrame) = orders
        .withColumn("x", expr("try_cast(item AS DOUBLE)"))
        .withColumn("key", expr(s"CAST(IF(x IS NULL, NULL, $key) AS $dataType)"))
        .join(table(measures.root), expr(condition), "left_outer")
        .select("item", "name")
      val (plain, nullSafe) = (new Stream(joined("id = key")), new Stream(joined("id <=> key")))
      // Compared with a value of another type.
      val wide = Option.when(dataType == "DOUBLE" || dataType == "FLOAT")(new Stream(joined("x = id")))
      val queries = Seq(plain, nullSafe) ++ wide
      during(measures) {
        val rows = Seq(1.5 -> "some", Double.NaN -> "none", -0.0 -> "zero")
        measures.feed(rows.map { case (x, name) => Row(toKey(x), name) } :+ Row(null, "null"): _*)
        during(queries: _*) {
          val items = Seq("1.5", "NaN", "0.0", "-0.0", "2.5", "x").zipWithIndex
          queries.foreach(_.add(items.map { case (item, n) => Row(n, n, item) }: _*))
          val found = Seq("-0.0 zero", "0.0 zero", "1.5 some", "2.5 -", "NaN none")
          (plain +: wide.toSeq).foreach(query => assert(query.all == found :+ "x -"))
          assert(nullSafe.all == found :+ "x null")
        }
      }
    }

  test("a join that is not possible is rejected when the query starts") {
    val people = maintainer("id INT, name STRING, town STRING, op STRING", Seq(Seq("id")), op = Some("op"))
    during(people) {
      def join(how: String, condition: String = "customer_id = id"): Any =
        start(_.join(table(people.root), expr(condition), how))
      assert(rejected("STREAMJOIN_TABLE.ALL_ROWS")(join("right_outer")).contains("stream LEFT JOIN table"))
      assert(rejected("STREAMJOIN_TABLE.JOIN_TYPE")(join("full_outer")).contains("stream LEFT JOIN table"))
      assert(rejected("STREAMJOIN_TABLE.JOIN_TYPE")(join("left_semi")).contains("WHERE table.key IS NULL"))
      def first = start(orders => table(people.root).join(orders, expr("customer_id = id")))
      assert(rejected("STREAMJOIN_TABLE.ON_THE_LEFT")(first).contains("Write the stream first"))
      rejected("STREAMJOIN_TABLE.ALL_ROWS")(
        start(orders => table(people.root).join(orders, expr("customer_id = id"), "left_outer"))
      )
      assert(rejected("STREAMJOIN_TABLE_KEY")(join("inner", "item = name")).contains("[id]"))
      val towns =
        (orders: DataFrame) => orders.join(table(people.root).groupBy("town").count(), expr("item = town"))
      assert(rejected("STREAMJOIN_TABLE.OPERATOR")(start(towns)).contains("Aggregate"))
      val wrong = Map("asOf" -> "newest")
      assert(rejected("STREAMJOIN_OPTION")(table(people.root, wrong)).contains("current or previous"))
      rejected("STREAMJOIN_OPTION")(table(people.root, Map("atLeast" -> "now")))
      rejected("STREAMJOIN_NO_ARRANGEMENT")(table(s"${people.root}/none"))
    }
  }
}
