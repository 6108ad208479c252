package org.apache.spark.sql.streamjoin.joins.table

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.execution.ExplainMode
import org.apache.spark.sql.execution.streaming.runtime.StreamingQueryWrapper
import org.apache.spark.sql.functions.expr
import org.apache.spark.sql.streamjoin.ArrangementTest
import org.apache.spark.sql.{DataFrame, Row}

/** Streams that look up a table that Spark has cached. */
class CachedTablesSuite extends AnyFunSuite with TableTest {

  private def joined(customers: => DataFrame)(orders: DataFrame): DataFrame =
    orders.join(customers, expr("id = customer_id"), "left_outer").select("name", "item")

  private val order = Row(1, 1, "Computer")

  /** Checks that the stream sees a change of the table after `cached` has run. */
  private def followed(people: ArrangementTest.Maintainer, query: Stream)(cached: => Any): Unit =
    try {
      loaded(people)
      during(query) {
        assert(query.add(order).next == Seq("John Computer"))
        cached: Unit
        people.feed(Row(1, "Johnny", "update"))
        assert(query.add(order).next == Seq("Johnny Computer"))
      }
    } finally spark.catalog.clearCache()

  test("a look-up of a cached table sees its changes") {
    val people = customers
    during(people)(followed(people, new Stream(joined(table(people.root).cache())))(()))
  }

  test("a look-up sees the changes of a table that a batch query caches meanwhile") {
    val people = customers
    during(people) {
      lazy val read = table(people.root)
      followed(people, new Stream(joined(read))) {
        assert(read.persist().count() == 2)
        assert(read.select("id").queryExecution.withCachedData.toString.contains("InMemoryRelation"))
      }
    }
  }

  test("a batch query reads the cached rows, as with any other source") {
    withCustomers { people =>
      val cached = table(people.root).cache()
      try {
        assert(cached.count() == 2)
        people.feed(Row(3, "Eve", "insert"))
        assert(cached.count() == 2)
        cached.unpersist()
        assert(cached.count() == 3)
      } finally spark.catalog.clearCache()
    }
  }

  test("a look-up of a cached projection and filter of a table sees its changes") {
    withCustomers { people =>
      def some = table(people.root).where("id < 10").selectExpr("id", "upper(name) AS name").persist()
      val query = new Stream(joined(some))
      try
        during(query) {
          assert(query.add(order).next == Seq("JOHN Computer"))
          people.feed(Row(1, "Johnny", "update"))
          assert(query.add(order).next == Seq("JOHNNY Computer"))
        }
      finally spark.catalog.clearCache()
    }
  }

  test("a look-up of a view sees changes after CACHE TABLE and CACHE TABLE ... AS") {
    withCustomers { people =>
      table(people.root).createOrReplaceTempView("people")
      try {
        spark.sql("CACHE TABLE people")
        spark.sql("CACHE TABLE some AS SELECT * FROM people WHERE id < 10")
        Seq("people", "some").foreach { name =>
          val query = new Stream(joined(spark.table(name)))
          during(query) {
            assert(query.add(order).next == Seq("John Computer"), name)
            people.feed(Row(1, "Johnny", "update"))
            assert(query.add(order).next == Seq("Johnny Computer"), name)
          }
          people.feed(Row(1, "John", "update"))
        }
      } finally {
        spark.catalog.clearCache()
        Seq("people", "some").foreach(spark.catalog.dropTempView)
      }
    }
  }

  test("rows kept by rematch= match later rows of a cached table") {
    withCustomers { people =>
      val query = new Stream(orders => joined(table(people.root, rematch).cache())(timed(orders)))
      try
        during(query) {
          assert(query.add(Row(1, 3, "Keyboard")).next == Seq("- Keyboard"))
          people.feed(Row(3, "Ann", "insert"))
          assert(query.next == Seq("Ann Keyboard"))
          assert(plan(query).contains("StreamTableJoin"))
        }
      finally spark.catalog.clearCache()
    }
  }

  test("a cached table is explained and rejected like any other") {
    withCustomers { people =>
      def orders =
        spark.readStream.format("rate").load().toDF("at", "customer_id").withWatermark("at", "0 seconds")
      def join(how: String, options: Map[String, String] = Map.empty) =
        orders.join(table(people.root, options).cache(), expr("id = customer_id"), how)
      try {
        assert(explained(join("left_outer")).contains("LookUp"))
        assert(explained(join("left_outer", rematch)).contains("StreamTableJoin"))
        val semi = join("left_semi")
        rejected("STREAMJOIN_TABLE.JOIN_TYPE")(semi.writeStream.format("noop").start().stop())
      } finally spark.catalog.clearCache()
    }
  }

  private def explained(query: DataFrame): String =
    query.queryExecution.explainString(ExplainMode.fromString("simple"))

  private def plan(query: Stream): String = query.running
    .asInstanceOf[StreamingQueryWrapper]
    .streamingQuery
    .explainInternal(false)
}
