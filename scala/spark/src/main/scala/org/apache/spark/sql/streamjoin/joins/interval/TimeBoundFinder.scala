package org.apache.spark.sql.streamjoin.joins.interval

import scala.util.Try

import org.apache.spark.sql.catalyst.expressions.{Left => _, Right => _, _}
import org.apache.spark.sql.catalyst.util.DateTimeUtils
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streamjoin.base.PredicateParts
import org.apache.spark.sql.streamjoin.time.{BatchTime, EventTime, LinearTime, TimeComparison, WindowField}
import org.apache.spark.sql.types.{TimestampType, YearMonthIntervalType}
import org.apache.spark.unsafe.types.{CalendarInterval, UTF8String}

import streamjoin.core.Side

/**
 * A time bound found in a condition: `out >= in - postpone`, with the conjunct that implies it.
 *
 * @param side
 *   side of `out`, whose rows the bound keeps
 * @param postpone
 *   in microseconds, widened for clock changes
 * @param exact
 *   whether the bound is as strict as its comparison
 */
final private[streamjoin] case class FoundBound(
    side: Side,
    out: Attribute,
    in: Attribute,
    postpone: Long,
    conjunct: Expression,
    exact: Boolean
)

/** The reason why a conjunct that compares times of both inputs is not a bound. */
sealed private[streamjoin] trait NoBound {
  def conjunct: Expression
}

private[streamjoin] object NoBound {

  /**
   * @param longest
   *   constant that is at least as long, or that can replace it
   * @param instead
   *   the same as a bound by a value of each row, if it can be written so
   */
  final case class NotConstant(
      conjunct: Expression,
      reason: String,
      longest: String,
      instead: Option[CarriedBound] = None
  ) extends NoBound

  /**
   * @param bounds
   *   constant ones in its alternatives
   * @param ends
   *   what it comes to, if rows carry their ends
   */
  final case class InsideOr(conjunct: Expression, bounds: Seq[FoundBound], ends: Seq[EndInOr]) extends NoBound
}

/**
 * Finds the time bounds in a join condition. Pure: conjuncts in, bounds out.
 *
 * @param times
 *   replaces the parts of an expression that are a constant apart from an event time
 */
final private[streamjoin] class TimeBoundFinder(
    left: AttributeSet,
    right: AttributeSet,
    times: Expression => Expression = identity
) {
  import NoBound._

  def sideOf(expression: Expression): Option[Side] =
    if (expression.references.isEmpty) None
    else if (expression.references.subsetOf(left)) Some(Side.Left)
    else if (expression.references.subsetOf(right)) Some(Side.Right)
    else None

  /** The bounds in a conjunct; an equality gives two. */
  def bounds(conjunct: Expression): Seq[FoundBound] =
    for {
      comparison <- TimeComparison.in(times(conjunct))
      side <- sideOf(comparison.out)
      other <- sideOf(comparison.in)
      if side != other
    } yield FoundBound(side, comparison.out, comparison.in, comparison.postpone, conjunct, comparison.exact)

  /**
   * The bounds in a conjunct by a value that the rows of a side carry: `value >= time + constant`.
   * Only the rows with the value may leave by it.
   */
  def carried(conjunct: Expression): Seq[CarriedBound] =
    withCarried(conjunct).filter(bound => whyNotLasting(bound.value).isEmpty)

  private def withCarried(conjunct: Expression): Seq[CarriedBound] =
    for {
      (value, less, strict) <- TimeComparison.pairs(conjunct)
      if value.dataType == TimestampType && !isOfMonths(value)
      side <- sideOf(value).toSeq
      (in, distance) <- sum(less).toSeq
      if sideOf(in).contains(side.other)
      postpone <- Try(Math.subtractExact(distance, if (strict) 1L else 0L)).toOption
    } yield CarriedBound(side, value, less, strict, in, postpone, conjunct)

  /** A column, and by how much it is at most above the expression. */
  private def sum(expression: Expression): Option[(Attribute, Long)] =
    LinearTime
      .of(times(expression))
      .toOption
      .collect { case LinearTime(Seq(in), Seq(), constant, below, _) =>
        Try(Math.subtractExact(below, constant)).toOption.map(in -> _)
      }
      .flatten

  /** The longest month is a constant, so it is better written as one. */
  private def isOfMonths(value: Expression): Boolean = LinearTime.of(value) match {
    case Left(_: LinearTime.Months) => true
    case _ => false
  }

  /** The reason why a value may be another one later, or cannot be computed for a row alone. */
  private def whyNotLasting(value: Expression): Option[String] =
    if (value.exists(_.isInstanceOf[PythonFuncExpression])) Some("is computed by a Python function")
    else if (SubqueryExpression.hasSubquery(value)) Some("has a subquery")
    else if (BatchTime.isIn(value)) Some("differs from batch to batch")
    else if (!value.deterministic) Some("is not deterministic")
    else None

  /** The reason why a conjunct that looks like a bound is not one. */
  def problem(conjunct: Expression): Option[NoBound] = conjunct match {
    case or: Or =>
      val inside = EndsInOr.alternatives(or).flatMap(PredicateParts.conjuncts).flatMap(bounds)
      val ends = new EndsInOr(carried, sideOf).in(or)
      if (inside.isEmpty && ends.isEmpty) None else Some(InsideOr(or, inside, ends))
    case _ if sideOf(conjunct).isDefined || bounds(conjunct).nonEmpty => None
    case _ if withCarried(conjunct).nonEmpty =>
      (for {
        bound <- withCarried(conjunct)
        reason <- whyNotLasting(bound.value)
      } yield NotConstant(conjunct, s"${bound.value.sql} $reason", "1 HOUR")).headOption
    case _ =>
      TimeComparison
        .pairs(times(conjunct))
        .headOption
        .filter(_ => Seq(left, right).forall(side => spansTime(conjunct, side)))
        .flatMap { case (greater, less, _) => why(conjunct, greater, less) }
  }

  private def spansTime(expression: Expression, side: AttributeSet): Boolean =
    expression.references.exists(column => EventTime.isTime(column) && side.contains(column))

  private def why(conjunct: Expression, greater: Expression, less: Expression): Option[NotConstant] = {
    val (more, fewer) = LinearTime.ofBoth(greater, less)
    Seq(more, fewer).collectFirst {
      case Left(LinearTime.Months(part)) =>
        NotConstant(
          conjunct,
          s"${part.sql} has months or years, whose length varies",
          s"${31 * months(part).getOrElse(1)} DAYS"
        )
      case Left(LinearTime.Varies(part @ WindowField(_, true))) =>
        NotConstant(
          conjunct,
          s"${part.sql.replace("`", "")} is the start of a window whose length is not constant, as that of a session is not",
          "1 HOUR"
        )
      case Left(LinearTime.Varies(part)) =>
        NotConstant(
          conjunct,
          s"${part.sql} varies from row to row, or is not a sum of a timestamp and intervals",
          "1 HOUR",
          ofDistance(conjunct)
        )
    }
  }

  /** `b.t - a.t <= value` bounds `a` if it is written as `b.t <= a.t + value`. */
  private def ofDistance(conjunct: Expression): Option[CarriedBound] = TimeComparison
    .pairs(conjunct)
    .flatMap {
      case (length, SubtractTimestamps(in, from, _, _), strict) if LinearTime.isInterval(length) =>
        val end = TimestampAddInterval(from, length, Some(SQLConf.get.sessionLocalTimeZone))
        carried(if (strict) LessThan(in, end) else LessThanOrEqual(in, end))
      case _ => Nil
    }
    .headOption

  private def months(part: Expression): Option[Int] = part.collectFirst {
    case Literal(months: Int, _: YearMonthIntervalType) => math.abs(months)
    case Literal(interval: CalendarInterval, _) => math.abs(interval.months)
    case Literal(unit: UTF8String, _) if part.isInstanceOf[TruncTimestamp] =>
      DateTimeUtils.parseTruncLevel(unit) match {
        case DateTimeUtils.TRUNC_TO_YEAR => 12
        case DateTimeUtils.TRUNC_TO_QUARTER => 3
        case _ => 1
      }
  }
}
