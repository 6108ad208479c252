package org.apache.spark.sql.streamjoin.operators.interval

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Left => _, Right => _, _}
import org.apache.spark.sql.streamjoin.state.{Reach, RowLayout}
import org.apache.spark.sql.streamjoin.time.EventTime
import org.apache.spark.sql.types.{LongType, TimestampType}

import streamjoin.core.Side

/**
 * One side of the join, for the tasks: data, in the same form for both sides.
 *
 * Event-time columns are numbered in four ways. For a join whose left input has the columns `a`,
 * `b`, `c` and whose right input has `x`, with bounds that keep the left rows by `c` and also
 * compare `a`:
 * {{{
 *   watermark key   a 0   b 1   c 2   x 3   of the join: times, watermarks, bounds
 *   position        a 0   b 1   c 2   x 0   of its side: times, late, `bounded` and `needed`
 *   needed          c 0   a 1         x 0   those in a bound: time fields of a stored row, reach
 *   bounded         c 0               x 0   those that keep rows: evictionLimits, expiry times
 * }}}
 * `needed` begins with `bounded`, so both number those columns alike. Rows are bucketed by bounded
 * column 0.
 *
 * @param keys
 *   keys of the equality
 * @param times
 *   event-time columns, by position
 * @param bounded
 *   positions of the columns by which a time bound keeps rows
 * @param needed
 *   positions of all columns in a bound, `bounded` first; a row with a null in one of them has no
 *   match
 * @param only
 *   condition on this side alone that a row needs to satisfy to have a match
 * @param late
 *   watermarks by position: a row below one of them is late
 * @param evictionLimits
 *   limits by bounded column: a row below one of them has expired
 * @param reach
 *   times of the other side that a row can match; it numbers times as `needed` does
 * @param bucketWidth
 *   time span of a state bucket, in microseconds
 */
final private[streamjoin] case class SideSpec(
    side: Side,
    output: Seq[Attribute],
    keys: Seq[Expression],
    times: Seq[Attribute],
    bounded: Seq[Int],
    needed: Seq[Int],
    only: Option[Expression],
    late: Seq[Long],
    evictionLimits: Seq[Long],
    reach: Reach,
    bucketWidth: Long
) {

  /**
   * Keys and times are fields of a stored row. Columns are stored as they are. Computed values are
   * appended: a key that is an expression, and the last instant of a window, which is the window's
   * time.
   */
  private val computed: Seq[Alias] = {
    val keyColumns = keys.filterNot(_.isInstanceOf[Attribute]).map(key => Alias(key, "key")())
    val timeColumns = needed.map(times).filter(EventTime.isWindow).map { window =>
      val end = PreciseTimestampConversion(GetStructField(window, 1), TimestampType, LongType)
      Alias(Subtract(end, Literal(1L)), "time")()
    }
    keyColumns ++ timeColumns
  }

  /** The columns of a stored row: those of the input, then the computed ones. */
  val stored: Seq[Attribute] = output ++ computed.map(_.toAttribute)

  /** Nothing but the fields of the input is stored. */
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
    needed
      .map(times)
      .map(time => if (EventTime.isWindow(time)) next.next() else field(time))
      .toArray
  }

  private def field(column: Attribute): Int = output.indexWhere(_.exprId == column.exprId)

  /** A row with a null in one of these fields has no match. */
  def neverNull: Array[Int] = keyFields ++ timeFields

  def layout: RowLayout =
    new RowLayout(stored.map(_.dataType), keyFields, timeFields, bounded.map(needed.indexOf(_)).toArray)
}

/** Checks the input rows of a side: whether they are late, whether they can have a match. */
final private[streamjoin] class SideReader(spec: SideSpec) {
  private val only = spec.only.map(Predicate.create(_, spec.output))
  private val ordinals = spec.times.map(time => spec.output.indexWhere(_.exprId == time.exprId)).toArray
  private val windows = spec.times.map(EventTime.isWindow).toArray
  private val lateBelow = spec.late.toArray
  private val projection = spec.projection
  private val neverNull = spec.neverNull

  /** The position of the first event-time column by which a row is late, or -1. */
  def lateAt(row: InternalRow): Int = {
    var at = 0
    while (at < ordinals.length && (row.isNullAt(ordinals(at)) || time(row, at) >= lateBelow(at))) at += 1
    if (at < ordinals.length) at else -1
  }

  /** The time of a window is its last instant. */
  private def time(row: InternalRow, at: Int): Long =
    if (windows(at)) row.getStruct(ordinals(at), 2).getLong(1) - 1 else row.getLong(ordinals(at))

  /** The row as it is stored, overwritten by the next call; null if it cannot have a match. */
  def meeting(row: InternalRow): UnsafeRow =
    if (only.isDefined && !only.get.eval(row)) null
    else {
      val stored = if (projection.isDefined) projection.get(row) else row.asInstanceOf[UnsafeRow]
      var at = 0
      while (at < neverNull.length && !stored.isNullAt(neverNull(at))) at += 1
      if (at < neverNull.length) null else stored
    }
}
