package org.apache.spark.sql.streamjoin.joins.interval

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Left => _, Right => _, _}
import org.apache.spark.sql.streamjoin.base.{EventTimeText, StreamJoinErrors}
import org.apache.spark.sql.streamjoin.state.{ProbeTimeRange, RowLayout}
import org.apache.spark.sql.streamjoin.time.{DurationText, EventTime}
import org.apache.spark.sql.types.{LongType, TimestampType}

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
 *   the place in `times` of the first of `bounds`, if it has an eviction limit, or -1
 * @param only
 *   condition on this side alone that a row must satisfy to have a match
 * @param reach
 *   times of the other side that a row can match, by the places in `bounds`
 * @param bucketWidth
 *   time span of a state bucket, in microseconds
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
    only: Option[Expression],
    reach: ProbeTimeRange,
    bucketWidth: Long,
    lifetime: Option[Lifetime] = None
) {
  private val boundTimes = bounds.map(_.time)

  val evictionLimits: Array[Long] = bounds.flatMap(_.evictionLimit).toArray

  /** By the places in `evictionLimits`. */
  val expiryKeys: Seq[Int] = bounds.filter(_.evictionLimit.isDefined).map(_.key)

  /**
   * Keys and times are fields of a stored row. Columns are stored unchanged. Computed values are
   * appended: a key that is an expression, the last instant of a window, which is its time, and a
   * value by which the row expires.
   */
  private val computed: Seq[Alias] = {
    val keyColumns = keys.filterNot(_.isInstanceOf[Attribute]).map(key => Alias(key, "key")())
    keyColumns ++ boundTimes.flatMap(computedTime).map(Alias(_, "time")())
  }

  private def computedTime(time: Expression): Option[Expression] = time match {
    case window: Attribute if EventTime.isWindow(window) =>
      val end = PreciseTimestampConversion(GetStructField(window, 1), TimestampType, LongType)
      Some(Subtract(end, Literal(1L)))
    case _: Attribute => None
    case value => Some(value)
  }

  /** The columns of a stored row: those of the input, then the computed ones. */
  val stored: Seq[Attribute] = output ++ computed.map(_.toAttribute)

  /** Whether only the fields of the input are stored. */
  def isPlain: Boolean = computed.isEmpty

  def projection: Option[UnsafeProjection] =
    if (isPlain) None else Some(UnsafeProjection.create(output ++ computed, output))

  private val keyFields: Array[Int] = {
    val next = Iterator.from(output.size)
    keys.map {
      case column: Attribute => field(column)
      case _ => next.next()
    }.toArray
  }

  private val timeFields: Array[Int] = {
    val next = Iterator.from(output.size + keys.count(!_.isInstanceOf[Attribute]))
    boundTimes.map {
      case column: Attribute if !EventTime.isWindow(column) => field(column)
      case _ => next.next()
    }.toArray
  }

  private def field(column: Attribute): Int = output.indexWhere(_.exprId == column.exprId)

  /** The field with one of `bounds`. */
  def timeField(place: Int): Int = timeFields(place)

  /** The fields in which a null means that the row has no match. */
  def neverNull: Array[Int] = keyFields ++ timeFields

  def layout: RowLayout =
    new RowLayout(stored.map(_.dataType), keyFields, timeFields, evictionLimits.indices.toArray)
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
