package org.apache.spark.sql.streamjoin.joins.table

import scala.collection.mutable

import org.apache.spark.sql.execution.streaming.runtime.MemoryStream
import org.apache.spark.sql.streaming.{StreamingQuery, Trigger}
import org.apache.spark.sql.streamjoin.{ArrangementTest, JoinTest}
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.{DataFrame, Encoders, Row}

/** Streams that are joined with a table, that is, an arrangement. */
trait TableTest extends ArrangementTest { self: org.scalatest.funsuite.AnyFunSuite =>
  import ArrangementTest._

  protected val Customers = "id INT, name STRING, op STRING"
  protected val Orders = "order_id INT, customer_id INT, item STRING"

  /** A stream, and the query that joins it. */
  protected class Stream(joined: DataFrame => DataFrame, val trigger: Trigger = Trigger.ProcessingTime(0))
      extends Job(newFolder()) {
    private val schema = StructType.fromDDL(Orders)
    private val input = MemoryStream[Row](Encoders.row(schema), spark)
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

    /** All rows that came out so far. */
    def all: Seq[String] = {
      settle()
      rows.synchronized(rows.map(_._2).toSeq.sorted)
    }

    /** The rows that came out since the last call. */
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

  protected def customers: Maintainer = maintainer(Customers, Seq(Seq("id")), op = Some("op"))

  protected def loaded(maintainer: Maintainer): Unit =
    maintainer.feed(Row(1, "John", "insert"), Row(2, "Frank", "insert"))
}
