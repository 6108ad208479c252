package org.apache.spark.sql.streamjoin.joins.table

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.functions.{expr, lit}
import org.apache.spark.sql.{AnalysisException, DataFrame, Row}

/** Joins with tables as users write them, and the messages for mistakes. */
class TableEdgesSuite extends AnyFunSuite with TableTest {

  private val items = Seq(Row(1, 1, "Computer"), Row(2, 2, "Mouse"), Row(3, 3, "Keyboard"))

  test("table RIGHT JOIN stream works, with a filter that turns it into an inner join") {
    withCustomers { people =>
      val query = new Stream(orders =>
        table(people.root)
          .join(orders, expr("id = customer_id"), "right_outer")
          .where("name = 'John'")
          .select("id", "name", "item")
      )
      val sql = new Stream({ orders =>
        orders.createOrReplaceTempView("edge_orders")
        table(people.root).createOrReplaceTempView("edge_people")
        spark.sql(
          "SELECT * FROM edge_people p RIGHT JOIN edge_orders o ON p.id = o.customer_id WHERE p.id > 1"
        )
      })
      during(query, sql) {
        Seq(query, sql).foreach(_.add(items: _*))
        assert(query.all == Seq("1 John Computer"))
        assert(sql.all == Seq("2 Frank 2 2 Mouse"), "columns come in the order of the query")
      }
      def written = start(orders => table(people.root).join(orders, expr("id = customer_id")))
      assert(rejected("STREAMJOIN_TABLE.ON_THE_LEFT")(written).contains("Write the stream first"))
    }
  }

  test("a column of the key may be equal to a constant, as written or as the optimizer finds") {
    val people = maintainer("tenant STRING, id INT, name STRING", Seq(Seq("tenant", "id")))
    def joined(query: DataFrame => DataFrame) = new Stream({ orders =>
      orders
        .selectExpr("*", "IF(order_id < 3, 'eu', 'us') AS region")
        .createOrReplaceTempView("edge_orders")
      table(people.root).createOrReplaceTempView("edge_people")
      query(spark.table("edge_orders")).select("name", "item")
    })
    val ofId = "id = customer_id"
    val queries = Seq(
      joined(_.join(spark.table("edge_people"), expr(s"tenant = 'eu' AND $ofId"))),
      joined(_.join(spark.table("edge_people").where("tenant <=> 'eu'"), expr(ofId))),
      joined(_.withColumn("of", lit("eu")).join(spark.table("edge_people"), expr(s"tenant = of AND $ofId"))),
      // The optimizer removes the equality of the columns.
      joined { _ =>
        spark.sql(s"SELECT * FROM edge_orders, edge_people WHERE $ofId AND tenant = region AND region = 'eu'")
      }
    )
    val rematching = joined { orders =>
      timed(orders).join(table(people.root, rematch), expr(s"tenant = 'eu' AND $ofId"), "left_outer")
    }
    def constant(condition: String): Any =
      start(_.join(table(people.root), expr(condition)).select("name", "item"))
    during(people) {
      people.feed(Row("eu", 1, "John"), Row("us", 1, "Jack"), Row("us", 3, "Frank"), Row("eu", 2, "Anna"))
      during(queries: _*) {
        queries.foreach(_.add(items: _*))
        queries.foreach(query => assert(query.all == Seq("Anna Mouse", "John Computer")))
      }
      during(rematching) {
        assert(rematching.add(items: _*).next == Seq("- Keyboard", "Anna Mouse", "John Computer"))
        people.feed(Row("us", 3, "Frank"), Row("eu", 3, "Franz"))
        rematching.add(Row(4, 4, "Screen"))
        assert(rematching.next == Seq("- Screen", "Franz Keyboard"))
      }
      rejected("STREAMJOIN_TABLE.NO_EQUALITY")(constant("tenant = 'eu' AND id = 1"))
      assert(rejected("STREAMJOIN_TABLE_KEY")(constant(s"name = 'John' AND $ofId")).contains("[id, name]"))
    }
  }

  test("a subquery below a table with rematch= is rejected at once") {
    withCustomers { people =>
      spark.range(2).createOrReplaceTempView("edge_numbers")
      val query = new Stream({ orders =>
        val some = table(people.root, rematch).where("id > (SELECT max(id) FROM edge_numbers)")
        timed(orders).join(some, expr("id = customer_id"), "left_outer")
      })
      assert(rejected("STREAMJOIN_TABLE.REMATCH_SUBQUERY")(during(query)(())).contains("subquery"))
      // Without `rematch=` it is an ordinary filter.
      val plain = new Stream({ orders =>
        val some = table(people.root).where("id > (SELECT max(id) FROM edge_numbers)")
        orders.join(some, expr("id = customer_id"), "left_outer").select("name", "item")
      })
      during(plain)(assert(plain.add(items: _*).all == Seq("- Computer", "- Keyboard", "Frank Mouse")))
    }
  }

  test("joining changelog streams as DataFrames is rejected, with advice on sj.delta_join and sj.table") {
    val folder = newFolder("arrangements")
    withConf("spark.streamjoin.arrangements" -> folder) {
      val people = customersIn(s"$folder/people")
      val towns = maintainer("id INT, town STRING", Seq(Seq("id")), root = s"$folder/towns")
      during(people, towns) {
        loaded(people)
        val error = rejected("STREAMJOIN_DELTA.FRAMES") {
          spark.readStream.table("people").join(spark.readStream.table("towns"), "id")
        }
        assert(error.contains("sj.delta_join"))
        assert(error.contains("sj.table"))
        assert(!error.contains("GROUP BY"))
      }
    }
  }

  test("an unreachable folder of arrangements does not hide Spark's own errors") {
    withConf("spark.streamjoin.arrangements" -> "nowhere://folder/of") {
      val missing = intercept[AnalysisException](spark.sql("SELECT * FROM nobody"))
      assert(missing.getCondition == "TABLE_OR_VIEW_NOT_FOUND")
      spark.range(1).createOrReplaceTempView("edge_numbers")
      assert(spark.sql("SELECT * FROM edge_numbers").count() == 1)
    }
  }
}
