package org.apache.spark.sql.streamjoin.joins.interval

import java.sql.Timestamp

import scala.util.Random

import org.apache.spark.sql.functions.expr
import org.apache.spark.sql.streamjoin.JoinTest
import org.apache.spark.sql.types.StructType
import org.apache.spark.sql.{DataFrame, Row, SparkSession}

import streamjoin.core.JoinType

/** Random rows for joins in which a row carries the time at which it leaves. */
private[interval] object CarriedBoundStories {
  val Columns = "id STRING, t TIMESTAMP, until TIMESTAMP, v INT"

  /** In `v` of the rows that move the watermarks to the end. */
  val End = 7777

  /** Carried by one or both sides, plain or computed, strict or not, with or without equality. */
  val Conditions: Seq[String] = Seq(
    "o.id = d.id AND d.t BETWEEN o.t AND o.until",
    "o.id = d.id AND o.t <= d.until AND d.t <= o.until",
    "o.id = d.id AND d.t >= o.t AND d.t < o.t + o.v * INTERVAL 1 MINUTE",
    "o.id = d.id AND d.t >= o.t - INTERVAL 2 MINUTES AND " +
      "d.t + INTERVAL 1 MINUTE <= least(o.until, o.t + INTERVAL 10 MINUTES) AND o.v > d.v",
    "o.id = d.id AND o.t > d.t AND d.until > o.t",
    "d.t BETWEEN o.t AND o.until AND o.v < d.v",
    // More comparisons with the value than the one by which rows leave.
    "o.id = d.id AND d.t >= o.t AND d.t BETWEEN o.until - INTERVAL 2 MINUTES AND o.until",
    "o.id = d.id AND o.t <= d.until AND d.t <= o.until AND d.until <= o.until",
    "o.id = d.id AND d.t >= o.t AND d.t <= o.until AND d.t <= o.until - INTERVAL 1 MINUTE"
  )

  val Simple = "o.id = d.id AND d.t BETWEEN o.t AND o.until"

  def order(id: String, time: String, until: String, v: Int = 1): (String, Row) =
    "o" -> Row(id, JoinTest.at(time), if (until == null) null else JoinTest.at(until), v)

  def delivery(id: String, time: String): (String, Row) =
    "d" -> Row(id, JoinTest.at(time), JoinTest.at(time), 1)

  private val Origin = JoinTest.at("10:00").getTime

  /** The rows of a stream as a batch. */
  def batchOf(spark: SparkSession, fed: Seq[(String, Row)])(name: String): DataFrame = {
    val rows = fed.collect { case (`name`, row) => row }
    spark
      .createDataFrame(spark.sparkContext.parallelize(rows), StructType.fromDDL(Columns))
      .as(name)
  }

  /** The rows of two streams, up to two minutes out of order, which drift apart and stall. */
  final class Story(seed: Long, val condition: String, joinType: JoinType) {
    override def toString: String = s"seed $seed, ${joinType.name}: $condition"

    private val random = new Random(seed * 31 + condition.hashCode + joinType.name.hashCode)

    val onRocksDb: Boolean = random.nextInt(3) == 0

    val restarts: Set[Int] = Set(random.nextInt(6))

    private val now = scala.collection.mutable.Map("o" -> 0L, "d" -> random.nextInt(10).toLong)

    val batches: Seq[Seq[(String, Row)]] = Seq.tabulate(7) { _ =>
      Seq("o", "d").filter(_ => random.nextInt(4) > 0).flatMap { name =>
        now(name) += random.nextInt(8)
        Seq.fill(random.nextInt(9))(name -> row(now(name)))
      }
    }

    private def row(minute: Long): Row = {
      val millis = Origin + minute * 60000 - random.nextInt(120000)
      val lifetime = Seq(-60000, 0, 90000, 300000, 1200000, 86400000)(random.nextInt(6))
      def rarely = random.nextInt(20) == 0
      Row(
        if (rarely) null else s"k${random.nextInt(3)}",
        if (rarely) null else new Timestamp(millis),
        if (rarely) null else new Timestamp(millis + lifetime),
        random.nextInt(30)
      )
    }

    val end: Seq[(String, Row)] = {
      val last = new Timestamp(Origin + 20L * 86400000)
      Seq("o", "d").map(name => name -> Row(s"end of $name", last, last, End))
    }

    def query(streams: JoinTest.Streams): DataFrame = joined(streams.marked(_, "2 minutes"))

    def joined(input: String => DataFrame): DataFrame =
      input("o").join(input("d"), expr(condition), joinType.name)
  }
}
