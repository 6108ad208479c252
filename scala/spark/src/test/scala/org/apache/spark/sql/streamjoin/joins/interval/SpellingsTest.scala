package org.apache.spark.sql.streamjoin.joins.interval

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.catalyst.util.DateTimeConstants._
import org.apache.spark.sql.functions._
import org.apache.spark.sql.streamjoin.JoinTest

import streamjoin.core.Side

/** What a time bound means in microseconds, however it is written. */
trait SpellingsTest extends JoinTest { self: AnyFunSuite =>
  protected val Second = MICROS_PER_SECOND
  protected val Minute = MICROS_PER_MINUTE
  protected val Hour = MICROS_PER_HOUR
  protected val Day = MICROS_PER_DAY

  protected lazy val streams = newStreams()
  protected def orders: DataFrame = streams.marked("o")
  protected def deliveries: DataFrame = streams.marked("d")

  /** For each side, how long the only join of a query keeps rows: `out >= in - this`. */
  protected def kept(frame: DataFrame): Map[Side, Long] = {
    val found = joins(frame)
    assert(found.size == 1)
    val join = found.head
    Side.both.map(side => side -> join.plan.found.filter(_.side == side).map(_.postpone).min).toMap
  }

  protected def check(frame: DataFrame, left: Long, right: Long): Unit =
    assert(kept(frame) == Map(Side.Left -> left, Side.Right -> right)): Unit

  /**
   * Adds the condition to an equality of the keys; orders are kept for `left`, deliveries for
   * `right`.
   */
  protected def on(condition: String, left: Long, right: Long): Unit =
    withClue(s"$condition: ") {
      check(orders.join(deliveries, expr(s"o.id = d.id AND $condition")), left, right)
      // The same condition given after the join.
      check(orders.join(deliveries, expr("o.id = d.id")).where(condition), left, right)
    }
}
