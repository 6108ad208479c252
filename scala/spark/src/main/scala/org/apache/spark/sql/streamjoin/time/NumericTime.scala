package org.apache.spark.sql.streamjoin.time

import java.time.ZoneId

import org.apache.spark.sql.catalyst.expressions.{Left => _, Right => _, _}
import org.apache.spark.sql.catalyst.util.DateTimeConstants._
import org.apache.spark.sql.types._

/**
 * Event times as numbers: `CAST(t AS BIGINT)`, `CAST(t AS DOUBLE)`, `unix_timestamp(t)`,
 * `unix_millis(t)` and the like. A number counts units and is rounded to them, so as a sum of times
 * it is off by the rounding error.
 */
private[streamjoin] object NumericTime {
  import LinearTime.{Result, Varies, Zero}

  /**
   * A double has 53 bits, so seconds up to the year 9999 are accurate to 32 microseconds. Each
   * operation adds the same error.
   */
  private val DoubleRounding = 32L

  /** The common unit of both sides, in microseconds; None if there is no unit, or more than one. */
  def unit(one: Expression, other: Expression): Option[Long] =
    Seq(one, other)
      .flatMap(_.collect {
        case Counted(_, unit, _, _) => unit
        case Difference(_, _, unit, _) => unit
      })
      .distinct match {
      case Seq(unit) => Some(unit)
      case _ => None
    }

  /** @param unit unit of the numbers, in microseconds */
  def sum(expression: Expression, unit: Long): Result = expression match {
    case Counted(time, `unit`, below, above) => LinearTime.of(time).map(_.widened(below, above))
    // Whole units, rounded toward zero.
    case Difference(end, start, `unit`, zone) =>
      LinearTime.between(end, start, zone).map(_.widened(unit - 1, unit - 1))
    case Alias(child, _) => sum(child, unit)
    case KnownNotNull(child) => sum(child, unit)
    case KnownNullable(child) => sum(child, unit)
    case replaced: RuntimeReplaceable => sum(replaced.replacement, unit)
    case foldable if foldable.foldable => constant(foldable, unit)
    case Cast(child, to, _, _) if holds(child.dataType, to) => sum(child, unit).map(rounded(to, unit, _))
    case Add(left, right, _) => both(left, right, unit)(_ + _).map(rounded(expression.dataType, unit, _))
    case Subtract(left, right, _) => both(left, right, unit)(_ - _).map(rounded(expression.dataType, unit, _))
    case UnaryMinus(child, _) => sum(child, unit).map(-_)
    case CheckOverflow(child, to, _) => sum(child, unit).map(rounded(to, unit, _))
    case _ => Left(Varies(expression))
  }

  private def both(left: Expression, right: Expression, unit: Long)(
      f: (LinearTime, LinearTime) => LinearTime
  ): Result =
    for { l <- sum(left, unit); r <- sum(right, unit) } yield f(l, r)

  private def constant(expression: Expression, unit: Long): Result = {
    val micros = expression.eval() match {
      case number: Decimal => Some(number.toBigDecimal * unit)
      case number: Double if !number.isNaN && !number.isInfinity => Some(BigDecimal(number) * unit)
      case number: Float if !number.isNaN && !number.isInfinity => Some(BigDecimal(number.toDouble) * unit)
      case number: Number => Some(BigDecimal(number.longValue) * unit)
      case _ => None
    }
    micros
      .map(_.setScale(0, BigDecimal.RoundingMode.HALF_UP))
      .filter(_.isValidLong)
      .fold[Result](Left(Varies(expression))) { whole =>
        // Rounding may lose less than a microsecond.
        val lost = if (expression.dataType.isInstanceOf[IntegralType]) 0L else 1L
        Right(Zero.copy(constant = whole.toLongExact).widened(lost, lost))
      }
  }

  /** Whether one type can hold every number of the other. */
  private def holds(from: DataType, to: DataType): Boolean = (from, to) match {
    case (_: IntegralType, wide: IntegralType) => wide.defaultSize >= from.defaultSize
    case (_: NumericType, DoubleType | _: DecimalType) => true
    case _ => false
  }

  private def rounded(to: DataType, unit: Long, sum: LinearTime): LinearTime = to match {
    case DoubleType => sum.widened(DoubleRounding, DoubleRounding)
    case decimal: DecimalType =>
      val rounding = DoubleRounding + math.ceil(unit * math.pow(10, -decimal.scale)).toLong
      sum.widened(rounding, rounding)
    case _ => sum
  }

  /** A difference of two times in whole units: the times, the unit in microseconds, the zone. */
  private object Difference {
    def unapply(expression: Expression): Option[(Expression, Expression, Long, ZoneId)] = expression match {
      case difference @ TimestampDiff(unit, start, end, _) =>
        LengthOf.unit(unit).map((end, start, _, difference.zoneId))
      case DateDiff(end, start) => Some((end, start, MICROS_PER_DAY, ClockChanges.sessionZone))
      case _ => None
    }
  }

  /**
   * A time as a number: the time, the unit, and how far the number may be below and above the time,
   * in microseconds.
   */
  private object Counted {
    def unapply(expression: Expression): Option[(Expression, Long, Long, Long)] = expression match {
      case Cast(time, to, _, _) if time.dataType == TimestampType =>
        to match {
          case LongType => Some((time, MICROS_PER_SECOND, MICROS_PER_SECOND - 1, 0L))
          case DoubleType => Some((time, MICROS_PER_SECOND, DoubleRounding, DoubleRounding))
          case decimal: DecimalType =>
            val rounding =
              DoubleRounding + math.ceil(MICROS_PER_SECOND * math.pow(10, -decimal.scale)).toLong
            Some((time, MICROS_PER_SECOND, rounding, rounding))
          case _ => None
        }
      case UnixSeconds(time) => Some((time, MICROS_PER_SECOND, MICROS_PER_SECOND - 1, 0L))
      case UnixMillis(time) => Some((time, MICROS_PER_MILLIS, MICROS_PER_MILLIS - 1, 0L))
      case UnixMicros(time) => Some((time, 1L, 0L, 0L))
      // Rounds toward zero, not down: before 1970 the number is above the time.
      case UnixTimestamp(time, _, _, _) if time.dataType == TimestampType => Some(towardZero(time))
      case ToUnixTimestamp(time, _, _, _) if time.dataType == TimestampType => Some(towardZero(time))
      case _ => None
    }

    private def towardZero(time: Expression) =
      (time, MICROS_PER_SECOND, MICROS_PER_SECOND - 1, MICROS_PER_SECOND - 1)
  }
}
