package org.apache.spark.sql.streamjoin.time

import java.util.Locale

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen.{CodegenContext, ExprCode}
import org.apache.spark.sql.catalyst.util.DateTimeConstants._
import org.apache.spark.sql.catalyst.util.DateTimeUtils
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/**
 * The start of the minute, hour, day, week or tumbling window of a time: the time, and the longest
 * such unit in microseconds, including clock changes.
 */
private[time] object Truncated {
  def unapply(expression: Expression): Option[(Expression, Long)] = expression match {
    case TumblingStart(time, length, _) => Some((time, length))
    case day @ Cast(time, DateType, _, _) if time.dataType == TimestampType =>
      Some((time, onLocalClock(day, MICROS_PER_DAY)))
    case trunc @ TruncTimestamp(format, time, _) if format.foldable =>
      Option(format.eval())
        .flatMap(level => longest(trunc, DateTimeUtils.parseTruncLevel(level.asInstanceOf[UTF8String])))
        .map((time, _))
    case _ => None
  }

  /** None for months and longer units, whose length varies. */
  private def longest(trunc: TruncTimestamp, level: Int): Option[Long] = {
    import DateTimeUtils._
    level match {
      case TRUNC_TO_MICROSECOND => Some(1L)
      case TRUNC_TO_MILLISECOND => Some(MICROS_PER_MILLIS)
      case TRUNC_TO_SECOND => Some(MICROS_PER_SECOND)
      case TRUNC_TO_MINUTE => Some(ClockChanges.longest(trunc.zoneId, MICROS_PER_MINUTE))
      case TRUNC_TO_HOUR => Some(ClockChanges.longest(trunc.zoneId, MICROS_PER_HOUR))
      case TRUNC_TO_DAY => Some(onLocalClock(trunc, MICROS_PER_DAY))
      case TRUNC_TO_WEEK => Some(onLocalClock(trunc, DAYS_PER_WEEK * MICROS_PER_DAY))
      case _ => None
    }
  }

  private def onLocalClock(at: TimeZoneAwareExpression, length: Long): Long =
    length + ClockChanges.largest(at.zoneId, length + MICROS_PER_DAY)
}

private[time] object LengthOf {

  /** The length of a unit of `timestampdiff` in microseconds; none for months and longer units. */
  def unit(name: String): Option[Long] = name.toUpperCase(Locale.ROOT) match {
    case "MICROSECOND" => Some(1L)
    case "MILLISECOND" => Some(MICROS_PER_MILLIS)
    case "SECOND" => Some(MICROS_PER_SECOND)
    case "MINUTE" => Some(MICROS_PER_MINUTE)
    case "HOUR" => Some(MICROS_PER_HOUR)
    case "DAY" => Some(MICROS_PER_DAY)
    case "WEEK" => Some(DAYS_PER_WEEK * MICROS_PER_DAY)
    case _ => None
  }
}

/**
 * The start of the tumbling window that a time is in, as in Spark's `window(time, length)`: equal
 * windows of one length have equal starts.
 *
 * @param length
 *   in microseconds, as `offset`
 */
final private[streamjoin] case class TumblingStart(child: Expression, length: Long, offset: Long)
    extends UnaryExpression
    with ExpectsInputTypes {
  override def nullIntolerant: Boolean = true

  override def inputTypes: Seq[AbstractDataType] = Seq(TimestampType)

  override def dataType: DataType = TimestampType

  override def prettyName: String = "window_start"

  override protected def nullSafeEval(time: Any): Any = {
    val micros = time.asInstanceOf[Long]
    micros - Math.floorMod(micros - offset, length)
  }

  override protected def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode =
    defineCodeGen(ctx, ev, time => s"$time - Math.floorMod($time - ${offset}L, ${length}L)")

  override protected def withNewChildInternal(newChild: Expression): TumblingStart = copy(child = newChild)
}
