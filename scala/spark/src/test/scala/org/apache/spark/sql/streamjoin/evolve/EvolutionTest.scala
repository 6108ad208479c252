package org.apache.spark.sql.streamjoin.evolve

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.functions.expr
import org.apache.spark.sql.streamjoin.JoinTest.{Job, Streams}
import org.apache.spark.sql.streamjoin.joins.temporal.TemporalTest

import streamjoin.core.Side

/** Queries over orders and deliveries whose bounds change. */
trait EvolutionTest extends TemporalTest { this: AnyFunSuite =>

  protected val Evolve = "spark.streamjoin.evolve"
  protected val hour = ChangedQuery()
  protected val (half, two) = (hour.copy(to = 30), hour.copy(to = 120))

  /** Half an hour a batch, and an order and a delivery for each. */
  protected def rows(batch: Int): Seq[Fed] = for (side <- Side.both; at <- 0 until 3)
    yield Fed(side, "a", 600 + 30 * batch + 9 * at, 100 * batch + 10 * side.index + at)

  protected def feed(job: Job, batch: Int): Seq[String] = job.feed(rows(batch).map(_.row): _*)

  /** A stopped query after some batches. */
  protected def after(query: Streams => DataFrame, batches: Int): Job = {
    val old = job(query)
    running(old)(job => (0 until batches).foreach(feed(job, _)))
    old
  }

  protected def chained(lower: ChangedQuery)(streams: Streams): DataFrame = {
    val below = lower.joined(streams).selectExpr("o.id AS id", "o.t AS t", "o.v AS a", "d.v AS b").as("f")
    val above = streams.marked("e")
    below
      .join(above, expr("f.id = e.id AND e.t BETWEEN f.t AND f.t + INTERVAL 1 HOUR"), "left_outer")
      .selectExpr("a", "b", "e.v AS c")
  }
}
