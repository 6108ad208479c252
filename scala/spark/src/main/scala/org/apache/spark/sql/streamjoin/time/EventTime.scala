package org.apache.spark.sql.streamjoin.time

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.EventTimeWatermark
import org.apache.spark.sql.types.{StructType, TimestampType}

/** Which columns are event times. */
private[streamjoin] object EventTime {

  /** An event-time column as Spark knows it. */
  def isMarked(attribute: Attribute): Boolean = attribute.metadata.contains(EventTimeWatermark.delayKey)

  /**
   * In the metadata of a column: it is the rowtime of a window join, which is the event time of the
   * join's output, whatever other event-time columns of its inputs are there besides.
   */
  val RowtimeKey = "streamjoin.rowtime"

  /** The event-time columns of an input that say when its rows are: one, unless it is ambiguous. */
  def of(output: Seq[Attribute]): Seq[Attribute] = {
    val marked = output.filter(column => isMarked(column) && column.dataType == TimestampType)
    marked.filter(_.metadata.contains(RowtimeKey)) match {
      case Seq() => marked
      case rowtimes => rowtimes
    }
  }

  /** An event-time column is a timestamp, or a window over one. */
  def isTime(attribute: Attribute): Boolean = attribute.dataType == TimestampType || isWindow(attribute)

  /** A tumbling or sliding window, as `window(...)` makes it. */
  def isWindow(attribute: Attribute): Boolean = attribute.dataType match {
    case StructType(Array(start, end)) =>
      start.name == "start" && end.name == "end" && Seq(start, end).forall(_.dataType == TimestampType)
    case _ => false
  }
}

/**
 * `window_time(window)` as `ResolveWindowTime` has it: the last instant in a window, for which its
 * watermark counts.
 */
private[streamjoin] object LastInstant {
  def unapply(expression: Expression): Option[Attribute] = expression match {
    case PreciseTimestampConversion(
          Subtract(
            PreciseTimestampConversion(GetStructField(window: Attribute, 1, _), _, _),
            Literal(1L, _),
            _
          ),
          _,
          TimestampType
        ) if EventTime.isWindow(window) =>
      Some(window)
    case _ => None
  }
}
