package org.apache.spark.sql.streamjoin.time

import scala.util.Try

import org.apache.spark.sql.catalyst.expressions._

/**
 * The bound that a comparison implies for two event times: `out >= in - postpone`. A window stands
 * for its last instant.
 *
 * @param postpone
 *   microseconds, widened if clocks change
 * @param exact
 *   whether the bound is equivalent to the comparison
 */
final private[streamjoin] case class TimeComparison(
    out: Attribute,
    in: Attribute,
    postpone: Long,
    exact: Boolean
)

private[streamjoin] object TimeComparison {

  /** The comparisons in a conjunct: none, one, or two for an equality. */
  def in(conjunct: Expression): Seq[TimeComparison] =
    for {
      (greater, less, strict) <- pairs(conjunct)
      signs = signed(less)
      each <- signs.getOrElse(Seq(less))
      found <- of(greater, each, strict, conjunct)
      // Both signs together say no more than that the absolute value is not above; an equality says
      // that it is not below either.
    } yield if (signs.isEmpty) found else found.copy(exact = false)

  /**
   * A value that is at least an absolute value is at least the value, and at least its negative.
   */
  private def signed(less: Expression): Option[Seq[Expression]] = less match {
    case Abs(child, _) => Some(Seq(child, UnaryMinus(child)))
    case Alias(child, _) => signed(child)
    case KnownNotNull(child) => signed(child)
    case cast: Cast => signed(cast.child).map(_.map(each => cast.withNewChildren(Seq(each))))
    case _ => None
  }

  /** A conjunct as `greater >= less`, or `>` if strict. */
  def pairs(conjunct: Expression): Seq[(Expression, Expression, Boolean)] = conjunct match {
    case GreaterThanOrEqual(l, r) => Seq((l, r, false))
    case GreaterThan(l, r) => Seq((l, r, true))
    case LessThanOrEqual(l, r) => Seq((r, l, false))
    case LessThan(l, r) => Seq((r, l, true))
    case EqualTo(l, r) => Seq((l, r, false), (r, l, false))
    case EqualNullSafe(l, r) if !l.nullable || !r.nullable => Seq((l, r, false), (r, l, false))
    case _ => Nil
  }

  private def of(
      greater: Expression,
      less: Expression,
      strict: Boolean,
      conjunct: Expression
  ): Option[TimeComparison] =
    (greater, less) match {
      case (l: Attribute, r: Attribute) if EventTime.isWindow(l) && EventTime.isWindow(r) =>
        conjunct match {
          case _: EqualTo | _: EqualNullSafe => Some(TimeComparison(l, r, 0L, exact = false))
          // Windows are ordered by their starts, which implies nothing about the ends of windows of
          // different lengths.
          case _ => None
        }
      case _ =>
        val (more, fewer) = LinearTime.ofBoth(greater, less)
        for {
          more <- more.toOption
          fewer <- fewer.toOption
          difference <- Try(more - fewer).toOption
          found <- difference match {
            // out - in + constant >= 0, and one microsecond less if the comparison is strict.
            case LinearTime(Seq(out), Seq(in), constant, _, above) =>
              Try(Math.addExact(constant, above - (if (strict) 1 else 0))).toOption
                .map(TimeComparison(out, in, _, exact = difference.isExact))
            case _ => None
          }
        } yield found
    }
}
