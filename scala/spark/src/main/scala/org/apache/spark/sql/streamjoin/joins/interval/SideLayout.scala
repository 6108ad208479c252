package org.apache.spark.sql.streamjoin.joins.interval

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.streamjoin.state.RowLayout
import org.apache.spark.sql.streamjoin.time.EventTime
import org.apache.spark.sql.types.{LongType, TimestampType}

/**
 * The form in which the rows of a side are stored. Keys and times are fields of a stored row.
 * Columns are stored unchanged. Computed values are appended: a key that is an expression, the last
 * instant of a window, which is its time, and a value by which the row expires.
 *
 * @param output
 *   columns of the input
 * @param keys
 *   keys of the equality
 * @param times
 *   columns and values in a time bound, those that expire a row first
 * @param expiring
 *   how many of them expire a row
 */
final private[interval] case class SideLayout(
    output: Seq[Attribute],
    keys: Seq[Expression],
    times: Seq[Expression],
    expiring: Int
) {
  private val computed: Seq[Alias] = {
    val keyColumns = keys.filterNot(_.isInstanceOf[Attribute]).map(key => Alias(key, "key")())
    keyColumns ++ times.flatMap(computedTime).map(Alias(_, "time")())
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

  val keyFields: Array[Int] = {
    val next = Iterator.from(output.size)
    keys.map {
      case column: Attribute => field(column)
      case _ => next.next()
    }.toArray
  }

  val timeFields: Array[Int] = {
    val next = Iterator.from(output.size + keys.count(!_.isInstanceOf[Attribute]))
    times.map {
      case column: Attribute if !EventTime.isWindow(column) => field(column)
      case _ => next.next()
    }.toArray
  }

  private def field(column: Attribute): Int = output.indexWhere(_.exprId == column.exprId)

  def layout: RowLayout =
    new RowLayout(stored.map(_.dataType), keyFields, timeFields, (0 until expiring).toArray)
}
