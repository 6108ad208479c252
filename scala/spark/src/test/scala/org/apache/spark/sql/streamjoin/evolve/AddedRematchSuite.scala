package org.apache.spark.sql.streamjoin.evolve

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.functions.expr
import org.apache.spark.sql.streamjoin.joins.table.TableTest
import org.apache.spark.sql.{DataFrame, Row}

/** A join with a table that keeps rows without a match is added on top of another one. */
class AddedRematchSuite extends AnyFunSuite with TableTest {

  test("rows from before the join are not matched with later rows of its table") {
    val (people, towns) = (customers, customers)
    def lower(orders: DataFrame) =
      timed(orders).join(
        table(people.root, rematch).toDF("a", "first"),
        expr("a = customer_id"),
        "left_outer"
      )
    def upper(orders: DataFrame) = lower(orders)
      .join(table(towns.root, rematch).toDF("b", "second"), expr("b = customer_id"), "left_outer")
      .select("item", "first", "second")
    var query: DataFrame => DataFrame = lower(_).selectExpr("item", "first", "NULL AS second")
    val stream = new Stream(orders => query(orders))
    during(people, towns) {
      loaded(people)
      towns.feed(Row(1, "Köln", "insert"))
      during(stream) {
        stream.add(Row(1, 1, "Cup"), Row(2, 3, "Key"), Row(2, 4, "Pen"))
        assert(stream.next == Seq("Cup John -", "Key - -", "Pen - -"))
        stream.stop()
        query = upper
        rejected("STREAMJOIN_CHECKPOINT_CHANGED")(stream.start())
        withConf("spark.streamjoin.evolve" -> "allow")(stream.start(): Unit)
        stream.add(Row(3, 1, "Mug"), Row(3, 5, "Hat"))
        assert(stream.next == Seq("Hat - -", "Mug John Köln"))
        towns.feed(Row(3, "Ulm", "insert"), Row(4, "Bonn", "insert"), Row(5, "Kiel", "insert"))
        assert(stream.next == Seq("Hat - Kiel"), "the others had come before the join")
        // What the lower join emits from then on is looked up.
        people.feed(Row(3, "Ann", "insert"))
        assert(stream.next == Seq("Key Ann Ulm"))
        stream.replay()
        assert(stream.next == Nil)
        people.feed(Row(4, "Eve", "insert"))
        assert(stream.next == Seq("Pen Eve Bonn"))
      }
    }
  }
}
