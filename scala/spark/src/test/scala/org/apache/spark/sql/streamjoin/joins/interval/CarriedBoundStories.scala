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

  /** In `v` of rows that match nothing: a product with it is too large for an interval. */
  private val Overflows = 29

  /**
   * Carried by one or both sides, plain or computed, strict or not, in each direction, with or
   * without equality. The values by which rows leave are in brackets.
   */
  val Conditions: Seq[String] = Seq(
    "o.id = d.id AND d.t BETWEEN o.t AND [o.until]",
    "o.id = d.id AND o.t <= [d.until] AND d.t <= [o.until]",
    "o.id = d.id AND d.t >= o.t AND d.t < [o.t + o.v * INTERVAL 1 MINUTE]",
    "o.id = d.id AND d.t >= o.t - INTERVAL 2 MINUTES AND " +
      "d.t + INTERVAL 1 MINUTE <= [least(o.until, o.t + INTERVAL 10 MINUTES)] AND o.v > d.v",
    "o.id = d.id AND o.t > d.t AND [d.until] > o.t",
    "d.t BETWEEN o.t AND [o.until] AND o.v < d.v",
    "d.until > o.t - INTERVAL 1 MINUTE AND [o.until] >= d.t AND d.t > o.t",
    // The value of some rows cannot be computed.
    s"o.id = d.id AND d.t >= o.t AND d.t <= [o.t + IF(o.v = $Overflows, o.v * INTERVAL 30000000 DAYS, " +
      "o.v * INTERVAL 1 MINUTE)]",
    // More comparisons with the value than the one by which rows leave.
    "o.id = d.id AND d.t >= o.t AND d.t >= o.until - INTERVAL 2 MINUTES AND d.t <= [o.until]",
    "o.id = d.id AND o.t <= [d.until] AND d.t <= [o.until] AND d.until <= o.until",
    "o.id = d.id AND d.t >= o.t AND d.t <= [o.until] AND d.t <= o.until - INTERVAL 1 MINUTE",
    // A value from which on a row matches lets no row leave, nor does one next to another value.
    "o.id = d.id AND d.t BETWEEN o.t - INTERVAL 1 MINUTE AND o.t + INTERVAL 10 MINUTES AND d.t >= o.until",
    "o.id = d.id AND d.t BETWEEN o.t AND [o.until] AND d.until >= o.t AND o.until < d.until",
    // Next to a constant bound, the tighter one decides. The value has no other limit.
    "o.id = d.id AND d.t BETWEEN o.t AND o.t + INTERVAL 5 MINUTES AND d.t <= o.until",
    "o.id = d.id AND d.t + INTERVAL 1 MINUTE < o.until AND d.t <= o.t + INTERVAL 3 MINUTES AND o.t <= [d.until]",
    "o.id = d.id AND d.t BETWEEN o.t - INTERVAL 2 MINUTES AND o.t + INTERVAL 2 MINUTES AND o.t < d.until AND " +
      s"d.t <= o.t + IF(o.v = $Overflows, o.v * INTERVAL 30000000 DAYS, o.v * INTERVAL 10 SECONDS)",
    "d.t > o.t - INTERVAL 1 MINUTE AND o.until >= d.t AND d.t < o.t + INTERVAL 10 MINUTES AND o.v < d.v"
  )

  val Simple = "o.id = d.id AND d.t BETWEEN o.t AND o.until"

  def order(id: String, time: String, until: String, v: Int = 1): (String, Row) =
    "o" -> Row(id, JoinTest.at(time), if (until == null) null else JoinTest.at(until), v)

  def delivery(id: String, time: String): (String, Row) =
    "d" -> Row(id, JoinTest.at(time), JoinTest.at(time), 1)

  private val Origin = JoinTest.at("10:00").getTime
  private val Day = 86400000
  private val LastDay = JoinTest.at("9999-12-31T00:00")

  /** The rows of a stream as a batch. */
  def batchOf(spark: SparkSession, fed: Seq[(String, Row)])(name: String): DataFrame = {
    val rows = fed.collect { case (`name`, row) => row }
    spark
      .createDataFrame(spark.sparkContext.parallelize(rows), StructType.fromDDL(Columns))
      .as(name)
  }

  /**
   * The rows of two streams, up to two minutes out of order, which drift apart and stall.
   *
   * @param marked
   *   the condition, with the values in brackets
   * @param beyond
   *   what happens to rows with an end that is far away
   */
  final class Story(seed: Long, marked: String, joinType: JoinType, beyond: String = "fail") {
    override def toString: String = s"seed $seed, ${joinType.name}, $beyond: $condition"

    val condition: String = marked.replaceAll("[\\[\\]]", "")

    /** The condition that a batch join needs for the same rows. */
    val meaning: String =
      if (beyond == "cut")
        """\[(.*?([od])\..*?)]""".r.replaceAllIn(
          marked,
          found => {
            val (value, side) = (found.group(1), found.group(2))
            s"IF(($value) IS NULL, NULL, least($value, $side.t + INTERVAL 10 MINUTES))"
          }
        )
      else condition

    val settings: Map[String, String] = Map("spark.streamjoin.beyondMaxLifetime" -> beyond) ++
      Option.when(beyond == "cut")("spark.streamjoin.maxLifetime" -> "10m")

    private val random = new Random(seed * 31 + condition.hashCode + joinType.name.hashCode)

    val onRocksDb: Boolean = random.nextInt(3) == 0

    val restarts: Set[Int] = Set(random.nextInt(6))

    private val now = scala.collection.mutable.Map("o" -> 0L, "d" -> random.nextInt(10).toLong)

    val batches: Seq[Seq[(String, Row)]] = Seq.tabulate(7) { _ =>
      Seq("o", "d").filter(_ => random.nextInt(4) > 0).flatMap { name =>
        now(name) += random.nextInt(8)
        Seq.fill(random.nextInt(9))(name -> row(name, now(name)))
      }
    }

    private def row(name: String, minute: Long): Row = {
      val millis = Origin + minute * 60000 - random.nextInt(120000)
      def rarely = random.nextInt(20) == 0
      val value = random.nextInt(Overflows + 1)
      val id = if (rarely) null else if (value == Overflows) s"only in $name" else s"k${random.nextInt(3)}"
      Row(
        id,
        if (rarely) null else new Timestamp(millis),
        if (rarely) null else until(millis),
        value
      )
    }

    private def until(millis: Long): Timestamp =
      if (beyond == "cut" && random.nextInt(6) == 0) LastDay
      else {
        val far = if (beyond == "fail") Day else 15 * Day
        val lifetimes = Seq(-60000, 0, 90000, 300000, 1200000, far)
        new Timestamp(millis + lifetimes(random.nextInt(lifetimes.size)))
      }

    /**
     * Whether a row never leaves, so that it is never padded: its value is unknown, and no lifetime
     * is too long.
     */
    def stays(row: Row): Boolean = someStay && row.get(0) == "only in o" && !row.isNullAt(1)

    private val someStay = beyond == "keep" && s"\\[[^]]*= $Overflows".r.findFirstIn(marked).isDefined

    /** The number of rows that never leave. */
    def staying: Int = batches.flatten.count { case (_, row) => stays(row) }

    /** Later than any lifetime, and than 30 days, the longest for a row whose value is unknown. */
    val end: Seq[(String, Row)] = {
      val last = new Timestamp(Origin + 40L * Day)
      Seq("o", "d").map(name => name -> Row(s"end of $name", last, last, End))
    }

    def query(streams: JoinTest.Streams): DataFrame = joined(streams.marked(_, "2 minutes"), condition)

    def joined(input: String => DataFrame, on: String = condition): DataFrame =
      input("o").join(input("d"), expr(on), joinType.name)
  }
}
