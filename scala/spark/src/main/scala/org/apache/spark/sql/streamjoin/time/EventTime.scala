package org.apache.spark.sql.streamjoin.time

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.EventTimeWatermark
import org.apache.spark.sql.types.{LongType, StructType, TimestampType}

/** Finds event-time columns. */
private[streamjoin] object EventTime {

  /** Whether Spark has marked a column as event time. */
  def isMarked(attribute: Attribute): Boolean = attribute.metadata.contains(EventTimeWatermark.delayKey)

  /**
   * Metadata key of the rowtime of a window join. It is the event time of the join's output, even
   * if the join's inputs have other event-time columns.
   */
  val RowtimeKey = "streamjoin.rowtime"

  /** The event-time columns of an input's rows: exactly one, unless it is ambiguous. */
  def of(output: Seq[Attribute]): Seq[Attribute] = {
    val marked = output.filter(column => isMarked(column) && column.dataType == TimestampType)
    marked.filter(_.metadata.contains(RowtimeKey)) match {
      case Seq() => marked
      case rowtimes => rowtimes
    }
  }

  /** Whether a column is a timestamp, or a window over one. */
  def isTime(attribute: Attribute): Boolean = attribute.dataType == TimestampType || isWindow(attribute)

  /**
   * Whether a column has the type of a window, as returned by `window(...)` or
   * `session_window(...)`. [[FixedWindow]] tells those of fixed length.
   */
  def isWindow(attribute: Attribute): Boolean = attribute.dataType match {
    case StructType(Array(start, end)) =>
      start.name == "start" && end.name == "end" && Seq(start, end).forall(_.dataType == TimestampType)
    case _ => false
  }
}

/**
 * `window_time(window)` as `ResolveWindowTime` rewrites it: the last instant of a window, to which
 * its watermark applies.
 */
private[streamjoin] object LastInstant {
  def apply(window: Attribute): Expression = {
    val end = PreciseTimestampConversion(GetStructField(window, 1), TimestampType, LongType)
    PreciseTimestampConversion(Subtract(end, Literal(1L)), LongType, TimestampType)
  }

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
