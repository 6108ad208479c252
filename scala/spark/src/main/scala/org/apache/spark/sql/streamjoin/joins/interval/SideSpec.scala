package org.apache.spark.sql.streamjoin.joins.interval

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Left => _, Right => _, _}
import org.apache.spark.sql.streamjoin.base.{EventTimeText, StreamJoinErrors}
import org.apache.spark.sql.streamjoin.state.{LifetimeWidth, ProbeTimeRange, RowLayout}
import org.apache.spark.sql.streamjoin.time.{DurationText, EventTime}

import streamjoin.core.{Side, Watermark}

/**
 * An event-time column of an input.
 *
 * @param late
 *   its watermark, in microseconds: a row below it is late
 */
final private[streamjoin] case class InputTime(column: Attribute, late: Long)

/**
 * An event-time column in a time bound, or a value that each row carries.
 *
 * @param key
 *   its watermark key, or the key of the value
 * @param evictionLimit
 *   for a column by which a bound keeps rows, in microseconds: a row below it has expired
 */
final private[streamjoin] case class BoundTime(time: Expression, key: Int, evictionLimit: Option[Long])

/**
 * The longest lifetime of a row that carries the time at which it leaves. A row with a later time
 * fails the query.
 *
 * @param value
 *   place of the carried time in [[SideSpec.bounds]]
 * @param time
 *   place of the event time from which the lifetime counts
 * @param max
 *   in microseconds
 */
final private[streamjoin] case class Lifetime(
    value: Int,
    time: Int,
    max: Long,
    valueInWords: String,
    timeInWords: String
)

/**
 * One side of the join, for the tasks: data, in the same form for both sides.
 *
 * For a join whose left input has the event-time columns `a`, `b`, `c` and whose right input has
 * `x`, with bounds that keep the left rows by `c` and also compare `a`:
 * {{{
 *                 left              right
 *   times         a     b     c     x        a row is late by any of them
 *   bounds        c     a           x        time fields of a stored row, in this order
 *   of these      c                 x        have an eviction limit: expiring times
 * }}}
 * Rows are bucketed by the first of `bounds`.
 *
 * @param keys
 *   keys of the equality
 * @param bounds
 *   columns in a time bound, those with an eviction limit first; a row with a null in one of them
 *   has no match
 * @param observedTime
 *   the place in `times` of the event time that is observed, or -1: the first of `bounds`, or that
 *   from which a carried time counts
 * @param observedBound
 *   the place of that time in `bounds`, or -1
 * @param only
 *   condition on this side alone that a row must satisfy to have a match
 * @param reach
 *   times of the other side that a row can match, by the places in `bounds`
 * @param bucketWidth
 *   time span of a state bucket, in microseconds
 * @param byLifetimes
 *   set if the first rows decide the span, because rows carry the time at which they leave
 * @param lifetime
 *   set if a row that would stay longer fails the query
 */
final private[streamjoin] case class SideSpec(
    side: Side,
    output: Seq[Attribute],
    keys: Seq[Expression],
    times: Seq[InputTime],
    bounds: Seq[BoundTime],
    observedTime: Int,
    observedBound: Int,
    only: Option[Expression],
    reach: ProbeTimeRange,
    bucketWidth: Long,
    byLifetimes: Option[LifetimeWidth],
    lifetime: Option[Lifetime] = None
) {
  val evictionLimits: Array[Long] = bounds.flatMap(_.evictionLimit).toArray

  /** By the places in `evictionLimits`. */
  val expiryKeys: Seq[Int] = bounds.filter(_.evictionLimit.isDefined).map(_.key)

  private val rows = SideLayout(output, keys, bounds.map(_.time), evictionLimits.length)

  /** The columns of a stored row: those of the input, then the computed ones. */
  def stored: Seq[Attribute] = rows.stored

  /** Whether only the fields of the input are stored. */
  def isPlain: Boolean = rows.isPlain

  def projection: Option[UnsafeProjection] = rows.projection

  /** The field with one of `bounds`. */
  def timeField(place: Int): Int = rows.timeFields(place)

  /** The fields in which a null means that the row has no match. */
  def neverNull: Array[Int] = rows.keyFields ++ rows.timeFields

  def layout: RowLayout = rows.layout
}

/** Checks the input rows of a side: whether they are late, whether they can have a match. */
final private[streamjoin] class SideReader(spec: SideSpec) {
  private val only = spec.only.map(Predicate.create(_, spec.output))
  private val columns = spec.times.map(_.column)
  private val ordinals = columns.map(time => spec.output.indexWhere(_.exprId == time.exprId)).toArray
  private val windows = columns.map(EventTime.isWindow).toArray
  private val lateBelow = spec.times.map(_.late).toArray
  private val projection = spec.projection
  private val neverNull = spec.neverNull
  private val lifetime = spec.lifetime.orNull
  private val valueField = spec.lifetime.fold(-1)(of => spec.timeField(of.value))
  private val timeField = spec.lifetime.fold(-1)(of => spec.timeField(of.time))
  private lazy val keys = spec.keys.map(BindReferences.bindReference(_, spec.output))

  /** The place in `times` of the first column by which a row is late, or -1. */
  def lateAt(row: InternalRow): Int = {
    var at = 0
    while (at < ordinals.length && (row.isNullAt(ordinals(at)) || time(row, at) >= lateBelow(at))) at += 1
    if (at < ordinals.length) at else -1
  }

  /** The time by which a row expires, or none ([[SideReader.NoTime]]). */
  def observedTime(row: InternalRow): Long = {
    val at = spec.observedTime
    if (at < 0 || row.isNullAt(ordinals(at))) SideReader.NoTime else time(row, at)
  }

  /** The time of a window is its last instant. */
  private def time(row: InternalRow, at: Int): Long =
    if (windows(at)) row.getStruct(ordinals(at), 2).getLong(1) - 1 else row.getLong(ordinals(at))

  /** Whether a row has a null in its key. */
  def hasNullKey(row: InternalRow): Boolean = keys.exists(_.eval(row) == null)

  /** The stored form of the row, overwritten by the next call; null if it cannot have a match. */
  def toStoredRow(row: InternalRow): UnsafeRow =
    if (only.isDefined && !only.get.eval(row)) null
    else {
      val stored = if (projection.isDefined) projection.get(row) else row.asInstanceOf[UnsafeRow]
      var at = 0
      while (at < neverNull.length && !stored.isNullAt(neverNull(at))) at += 1
      if (at < neverNull.length) null
      else {
        if (lifetime != null) checkLifetime(stored)
        stored
      }
    }

  private def checkLifetime(stored: UnsafeRow): Unit = {
    val (value, time) = (stored.getLong(valueField), stored.getLong(timeField))
    if (value > Watermark.postponed(time, -lifetime.max))
      throw StreamJoinErrors.runtime(
        "STREAMJOIN_BEYOND_MAX_LIFETIME",
        "side" -> spec.side.name,
        "column" -> lifetime.valueInWords,
        "value" -> EventTimeText.of(value),
        "time" -> lifetime.timeInWords,
        "from" -> EventTimeText.of(time),
        "limit" -> DurationText.of(lifetime.max)
      )
  }
}

private object SideReader {
  val NoTime: Long = Long.MinValue
}
