package org.apache.spark.sql.streamjoin.evolve

import org.scalatest.Assertion
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.functions.expr
import org.apache.spark.sql.streamjoin.JoinTest.{Job, Streams, d, o, row}
import org.apache.spark.sql.streamjoin.joins.temporal.TemporalTest
import org.apache.spark.sql.{DataFrame, Row}

/**
 * Queries to which joins are added. All of them read the streams `o`, `d` and `e`, because Spark
 * finds sources without a name by their positions.
 */
trait AddedTest extends TemporalTest { this: AnyFunSuite =>
  protected type Query = Streams => DataFrame

  protected val Evolve = "spark.streamjoin.evolve"

  protected def e(id: String, time: String, v: Int): (String, Row) = "e" -> row(id, time, v)

  /** Orders with their deliveries. */
  protected def lower(streams: Streams): DataFrame =
    hourly("inner")(streams).selectExpr("o.id AS id", "o.t AS t", "o.v AS a", "d.v AS b").as("f")

  /** And the rows of the third stream, as they come. */
  protected val one: Query = streams =>
    lower(streams).selectExpr("a", "b").union(streams.marked("e").selectExpr("v AS a", "v AS b"))

  protected val Above = "f.id = e.id AND e.t BETWEEN f.t AND f.t + INTERVAL 1 HOUR"

  protected def two(how: String = "left_outer"): Query = streams =>
    lower(streams).join(streams.marked("e"), expr(Above), how).selectExpr("a", "b", "e.v AS c")

  protected val before: Seq[Seq[(String, Row)]] = Seq(
    Seq(o("a", "10:00", 1), d("a", "10:10", 2), e("a", "10:20", 3)),
    Seq(o("b", "10:30", 4))
  )

  /** The first batch of the changed query, and those that follow. */
  protected val after: Seq[Seq[(String, Row)]] = Seq(
    Seq(d("b", "10:40", 5), e("a", "10:50", 6), e("b", "10:45", 7)),
    Seq(o("c", "11:00", 8), d("c", "11:00", 9), e("c", "11:30", 10)),
    Seq(o("g", "11:10", 11), d("g", "11:20", 12)),
    Seq("23:00", "23:01").flatMap(time => end(time) :+ e("over", time, 999))
  )

  /** Rows that have come before the join do not get into it: order 1 has no row 6. */
  protected val added = Seq("11 12 -", "4 5 7", "8 9 10")

  protected def fed(query: Query, rows: Seq[Seq[(String, Row)]]): Job = {
    val made = job(query)
    running(made)(job => rows.foreach(rows => job.feed(rows: _*)))
    made
  }

  protected def output(job: Job): Seq[String] =
    withoutEnd(job.seen.distinctBy(_.id).flatMap(_.rows)).sorted

  protected def continued(job: Job, rows: Seq[Seq[(String, Row)]] = after): Seq[String] =
    running(job) { job =>
      rows.foreach(rows => job.feed(rows: _*))
      output(job)
    }

  protected def allow[T](body: => T): T = withConf(Evolve -> "allow")(body)

  protected def evolution(of: Job, query: Query): Seq[Seq[String]] =
    streamjoin.StreamJoin
      .evolution(query(newStreams()), of.checkpoint)
      .collect()
      .map(_.toSeq.map(String.valueOf(_: Any)))
      .toSeq

  protected def isRejected(old: Job, query: Query, text: String): Assertion = allow {
    val error = startError(old, query)
    assert(error.getCondition == "STREAMJOIN_CHECKPOINT_CHANGED")
    assert(error.getMessage.contains(text), error.getMessage)
    assert(evolution(old, query).exists(row => row(4) == "rejected" && row.last.contains(text)))
  }
}
