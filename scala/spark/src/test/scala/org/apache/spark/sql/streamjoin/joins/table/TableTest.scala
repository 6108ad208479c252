package org.apache.spark.sql.streamjoin.joins.table

import scala.collection.mutable

import org.apache.spark.sql.functions.{col, expr, timestamp_seconds}
import org.apache.spark.sql.streaming.{StreamingQuery, Trigger}
import org.apache.spark.sql.streamjoin.{ArrangementTest, JoinTest}
import org.apache.spark.sql.{DataFrame, Row}

/** Streams that are joined with a table, that is, an arrangement. */
trait TableTest extends ArrangementTest { self: org.scalatest.funsuite.AnyFunSuite =>
  import ArrangementTest._

  protected val Customers = "id INT, name STRING, op STRING"
  protected val Orders = "order_id INT, customer_id INT, item STRING"

  /** A stream, and the query that joins it. */
  protected class Stream(joined: DataFrame => DataFrame, val trigger: Trigger = Trigger.ProcessingTime(0))
      extends Job(newFolder()) {
    private val input = memory(Orders)
    private var read = 0
    private val rows = mutable.ArrayBuffer.empty[(Long, String)]

    override protected def begin(): StreamingQuery = joined(input.toDF()).writeStream
      .foreachBatch { (batch: DataFrame, number: Long) =>
        rows.synchronized {
          // A batch that runs again replaces its rows.
          rows.filterInPlace(_._1 != number)
          rows ++= batch.collect().map(row => number -> JoinTest.text(row))
        }: Unit
      }
      .option("checkpointLocation", checkpoint)
      .trigger(trigger)
      .start()

    def add(values: Row*): this.type = {
      input.addData(values)
      this
    }

    /** All rows that were emitted so far. */
    def all: Seq[String] = {
      settle()
      rows.synchronized(rows.map(_._2).toSeq.sorted)
    }

    /** The rows that were emitted since the last call. */
    def next: Seq[String] = {
      settle()
      rows.synchronized {
        val fresh = rows.drop(read).map(_._2).toSeq.sorted
        read = rows.size
        fresh
      }
    }
  }

  protected def table(root: String, options: Map[String, String] = Map.empty): DataFrame =
    spark.read.format("streamjoin").option("streamjoin.table", true).options(options).load(root)

  protected def customers: Maintainer = customersIn(newFolder("arrangement"))

  protected def customersIn(root: String): Maintainer =
    maintainer(Customers, Seq(Seq("id")), op = Some("op"), root = root)

  protected def loaded(maintainer: Maintainer): Unit =
    maintainer.feed(Row(1, "John", "insert"), Row(2, "Frank", "insert"))

  /** With John and Frank as customers, whose arrangement is maintained meanwhile. */
  protected def withCustomers[T](body: Maintainer => T): T = {
    val people = customers
    during(people) {
      loaded(people)
      body(people)
    }
  }

  /** The event time of an order is its number, in seconds. */
  protected def timed(orders: DataFrame): DataFrame =
    orders.withColumn("at", timestamp_seconds(col("order_id"))).withWatermark("at", "0 seconds")

  protected val rematch: Map[String, String] = Map("rematch" -> "100 seconds")

  /** Orders with the names of their customers; some customers may be known later. */
  protected def rematched(root: String)(orders: DataFrame): DataFrame =
    timed(orders).join(table(root, rematch), expr("id = customer_id"), "left_outer").select("name", "item")

  /** Starts a query and stops it, if it is not rejected. */
  protected def start(joined: DataFrame => DataFrame): Any = during(new Stream(joined))(())
}
