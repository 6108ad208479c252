package org.apache.spark.sql.streamjoin.joins.interval

import java.util.concurrent.TimeUnit

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streamjoin.analysis.EquiKeys
import org.apache.spark.sql.streamjoin.base.StreamJoinConf
import org.apache.spark.sql.streamjoin.evolve.RecordedValue
import org.apache.spark.sql.streamjoin.time.{EventTime, LastInstant}

import streamjoin.core.{Side, Watermark}

/**
 * A bound by a value that each row of a side carries, such as the end of an auction: `value >= in -
 * postpone`. A row leaves once the watermark of `in` has passed its value.
 *
 * {{{
 *   b.t BETWEEN a.t AND a.expires    value a.expires, in b.t: an auction leaves once the watermark
 *                                    of b.t has passed its end; a bid leaves by the bound on a.t
 * }}}
 *
 * @param side
 *   side of `value`, whose rows the bound keeps
 * @param value
 *   expression over columns of that side
 * @param less
 *   what the conjunct compares it with: `in` plus a constant
 * @param strict
 *   whether `less` must be below the value
 * @param postpone
 *   in microseconds
 */
final private[streamjoin] case class CarriedBound(
    side: Side,
    value: Expression,
    less: Expression,
    strict: Boolean,
    in: Attribute,
    postpone: Long,
    conjunct: Expression
)

/**
 * How long a row with such a value may stay.
 *
 * @param micros
 *   longest distance from the row's event time; none if there is no limit
 * @param beyond
 *   what happens to a row whose value is further away
 * @param isBound
 *   whether the limit is a constant bound of the condition: no pair satisfies it whose value is
 *   further away, so the stored value is cut, and the condition needs no other limit
 */
final private[streamjoin] case class MaxLifetime(
    micros: Option[Long],
    beyond: String,
    isBound: Boolean = false
) {
  def fails: Boolean = beyond == StreamJoinConf.Fail
  def cuts: Boolean = beyond == StreamJoinConf.Cut
}

private[streamjoin] object MaxLifetime {
  def of(conf: SQLConf): MaxLifetime = {
    val beyond = conf.getConf(StreamJoinConf.BeyondMaxLifetime)
    MaxLifetime(
      Option.when(beyond != StreamJoinConf.Keep)(longest(conf)),
      beyond
    )
  }

  /** By a constant bound that compares with the same time as the value: the tighter one decides. */
  def by(constant: FoundBound, value: CarriedBound): MaxLifetime =
    MaxLifetime(
      Some(Watermark.postponed(constant.postpone, value.postpone)),
      StreamJoinConf.Cut,
      isBound = true
    )

  /** The setting, in microseconds. */
  def longest(conf: SQLConf): Long = TimeUnit.MILLISECONDS.toMicros(conf.getConf(StreamJoinConf.MaxLifetime))
}

/**
 * A bound by a carried value, as the join applies it.
 *
 * @param key
 *   number of the value: those of values follow the watermark keys
 * @param from
 *   watermark key of the event time from which lifetimes count
 */
final private[streamjoin] case class CarriedKey(
    bound: CarriedBound,
    key: Int,
    from: Int,
    max: MaxLifetime
) {
  def side: Side = bound.side

  /** The key from which the longest lifetime counts; none without a limit. */
  def time: Option[Int] = max.micros.map(_ => from)

  /** How far the time may be behind the other side's, by the longest lifetime. */
  def longest: Option[Long] = max.micros.map(Watermark.postponed(_, -bound.postpone))

  /** The stored value, over the columns of its side. */
  def stored(times: Int => Attribute): Expression = bound.value match {
    case column: Attribute if !max.cuts => column
    case value => CarriedValue(value, time.map(key => instant(times(key))), max.micros, max.cuts)
  }

  /** With `cut`, the condition compares with the longest lifetime, too. */
  def cut(times: Int => Attribute): Option[Expression] =
    Option.when(max.cuts && !max.isBound) {
      WithinLifetime(bound.less, instant(times(time.get)), max.micros.get, bound.strict)
    }

  /** A window stands for its last instant. */
  private def instant(time: Attribute): Expression =
    if (EventTime.isWindow(time)) LastInstant(time) else time

  /** The bound by the longest lifetime, unless the condition has it: it holds for every pair. */
  def ofLifetime(times: Int => Attribute): Option[FoundBound] =
    longest
      .filterNot(_ => max.isBound)
      .map(FoundBound(side, times(time.get), bound.in, _, bound.conjunct, exact = false))

  /** For the checkpoint: a value that is stored must mean the same after a restart. */
  def description(text: Expression => String): String = {
    val limit = max.micros.fold("")(micros => s" at most $micros us")
    s"${side.name}: ${text(bound.value)} in zone $zone, ${max.beyond}$limit"
  }

  def record: RecordedValue = RecordedValue(key, zone, max.beyond, time, max.micros)

  private def zone: String = EquiKeys.zone(Seq(bound.value))
}
