package org.apache.spark.sql.streamjoin.joins.table

import scala.collection.mutable
import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.Row
import org.apache.spark.sql.functions._
import org.apache.spark.sql.streamjoin.SparkTest

/**
 * Random streams and tables whose rows may match later, and queries that change how long they wait,
 * compared with a replay in plain Scala.
 */
class RematchOracleSuite extends AnyFunSuite with TableTest {

  for (seed <- 0 until SparkTest.seeds(default = 1)) test(s"agrees with a replay in Scala, seed $seed") {
    val story = new Story(seed)
    try withConf("spark.streamjoin.evolve" -> "allow")(story.run())
    catch { case error: Throwable => throw new AssertionError(s"seed $seed: ${story.log}", error) }
    succeed
  }

  /**
   * A random table and stream, and the rows expected in the output: kept rows are matched with the
   * table whenever a batch runs.
   */
  final private class Story(seed: Int) {
    private val random = new Random(seed)
    private val byId = random.nextBoolean()
    private var length = 5 + random.nextInt(40)
    private val delay = random.nextInt(10)
    private val isPrevious = random.nextInt(4) == 0
    val log: mutable.ArrayBuffer[String] = mutable.ArrayBuffer(
      s"by ${if (byId) "id" else "k"}, $length s, delay $delay s${if (isPrevious) ", previous" else ""}"
    )

    private val people =
      maintainer("id INT, k INT, v INT, op STRING", Seq(Seq("id"), Seq("k")), op = Some("op"))
    private val query = new Stream({ orders =>
      val options = Map("rematch" -> s"$length seconds") ++ Option.when(isPrevious)("asOf" -> "previous")
      val stream = orders
        .withColumn("at", timestamp_seconds(col("order_id")))
        .withWatermark("at", s"$delay seconds")
      val on = s"customer_id = ${if (byId) "id" else "k"} AND v > 3 AND item <> 'Pen'"
      stream.join(table(people.root, options), expr(on), "left_outer").select("order_id", "item", "id", "v")
    })

    // The model.
    private type Table = Map[Int, (Int, Int)]
    private var versions: Vector[Table] = Vector.empty
    private var kept: Vector[Row] = Vector.empty
    private var newest = Option.empty[Int]
    private var hasRun = false
    private val expected = mutable.ArrayBuffer.empty[String]

    private def seen: Table = {
      val at = versions.size - (if (isPrevious) 2 else 1)
      if (at < 0) Map.empty else versions(at)
    }

    private def matches(row: Row): Seq[String] = for {
      (id, (k, v)) <- seen.toSeq
      if !row.isNullAt(1) && row.getInt(1) == (if (byId) id else k) && v > 3 && row.getString(2) != "Pen"
    } yield s"${row.getInt(0)} ${row.getString(2)} $id $v"

    private def again(): Unit = {
      val (met, rest) = kept.partition(matches(_).nonEmpty)
      expected ++= met.flatMap(matches)
      kept = rest
    }

    private def leave(): Unit = newest.foreach { time =>
      kept = kept.filter(_.getInt(0) >= time - delay - length)
    }

    private def stream(rows: Seq[Row]): Unit = {
      again()
      leave()
      rows.foreach { row =>
        val found = matches(row)
        if (found.isEmpty) {
          expected += s"${row.getInt(0)} ${row.getString(2)} - -"
          if (newest.forall(time => row.getInt(0) >= time - delay - length)) kept :+= row
        } else expected ++= found
      }
      newest = (newest ++ rows.map(_.getInt(0))).maxOption
      leave()
      hasRun = true
    }

    // The events.
    private var clock = 100

    private def orders: Seq[Row] = Seq.fill(1 + random.nextInt(6)) {
      clock += random.nextInt(8)
      val key: Integer = if (random.nextInt(12) == 0) null else random.nextInt(8)
      Row(clock - random.nextInt(30), key, Seq("Pen", "Cup", "Desk")(random.nextInt(3)))
    }

    private def change(): Unit = {
      var table: Table = versions.lastOption.getOrElse(Map.empty)
      // At most one change per key and batch: within a batch, the columns decide the order of
      // changes.
      val changes = random.shuffle((0 until 8).toList).take(1 + random.nextInt(3)).map { id =>
        if (table.contains(id) && random.nextInt(3) == 0) {
          table -= id
          Row(id, 0, 0, "delete")
        } else {
          val (k, v) = (random.nextInt(8), random.nextInt(10))
          table += id -> (k, v)
          Row(id, k, v, "update")
        }
      }
      log += s"change ${changes.mkString(" ")}"
      people.feed(changes: _*)
      versions :+= table
      if (hasRun && kept.nonEmpty) again()
    }

    private def step(): Unit = random.nextInt(8) match {
      case 0 =>
        log += "restart"
        query.restart()
        again()
      case 1 if hasRun =>
        log += "replay"
        query.replay()
        again()
      case 2 | 3 | 4 => change()
      case _ =>
        val rows = orders
        log += s"rows ${rows.mkString(" ")}"
        query.add(rows: _*)
        query.settle()
        stream(rows)
    }

    /** Rows wait for another time: those that are too old leave with the first batch. */
    private def waitOtherwise(): Unit = {
      query.stop()
      length = 5 + random.nextInt(40)
      val rows = orders
      log += s"from now on $length s, rows ${rows.mkString(" ")}"
      query.add(rows: _*)
      query.start()
      query.settle()
      stream(rows)
    }

    def run(): Unit = during(people) {
      during(query) {
        for (number <- 1 to 14) {
          if (number % 5 == 0) waitOtherwise() else step()
          assert(query.all == expected.sorted)
        }
      }
    }
  }
}
