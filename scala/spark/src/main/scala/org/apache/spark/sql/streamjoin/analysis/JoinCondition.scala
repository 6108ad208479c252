package org.apache.spark.sql.streamjoin.analysis

import scala.util.Try

import org.apache.spark.sql.catalyst.expressions.{Left => _, Right => _, _}
import org.apache.spark.sql.streamjoin.watermark.WatermarkLineage

import streamjoin.core.{Left => LeftSide, Right => RightSide, Side}

/**
 * A time bound found in a condition: `out >= in - postpone`, with the conjunct that says so.
 *
 * @param side
 *   the side of `out`, whose rows the bound keeps
 * @param postpone
 *   microseconds, widened where clocks change
 * @param exact
 *   it says just what its comparison says, and not less
 */
final private[streamjoin] case class FoundBound(
    side: Side,
    out: Attribute,
    in: Attribute,
    postpone: Long,
    conjunct: Expression,
    exact: Boolean
)

/** Why a conjunct that compares times of both inputs is no bound for the rows of `side`. */
sealed private[streamjoin] trait NoBound {
  def conjunct: Expression
}

private[streamjoin] object NoBound {
  final case class NotConstant(conjunct: Expression, reason: String) extends NoBound
  final case class InsideOr(conjunct: Expression, bounds: Seq[FoundBound]) extends NoBound
}

/** Finds the time bounds in a join condition. Pure: conjuncts in, bounds out. */
final private[streamjoin] class JoinCondition(left: AttributeSet, right: AttributeSet) {
  import NoBound._

  def sideOf(expression: Expression): Option[Side] =
    if (expression.references.isEmpty) None
    else if (expression.references.subsetOf(left)) Some(LeftSide)
    else if (expression.references.subsetOf(right)) Some(RightSide)
    else None

  /** The bounds in a conjunct, one or two (an equality is both). */
  def bounds(conjunct: Expression): Seq[FoundBound] =
    comparisons(conjunct).flatMap { case (greater, less, strict) =>
      bound(greater, less, strict, conjunct).toSeq
    }

  /** The problems of a conjunct that looks like a bound and is none. */
  def problem(conjunct: Expression): Option[NoBound] = conjunct match {
    case or: Or =>
      val inside = alternatives(or).flatMap(PredicateParts.conjuncts).flatMap(bounds)
      if (inside.isEmpty) None else Some(InsideOr(or, inside))
    case _ if sideOf(conjunct).isDefined || bounds(conjunct).nonEmpty => None
    case _ =>
      comparisons(conjunct).headOption
        .filter(_ => Seq(left, right).forall(side => spansTime(conjunct, side)))
        .flatMap { case (greater, less, _) => why(greater, less).map(NotConstant(conjunct, _)) }
  }

  private def alternatives(expression: Expression): Seq[Expression] = expression match {
    case Or(l, r) => alternatives(l) ++ alternatives(r)
    case other => Seq(other)
  }

  private def spansTime(expression: Expression, side: AttributeSet): Boolean =
    expression.references.exists(column => WatermarkLineage.isTime(column) && side.contains(column))

  /** A conjunct as `greater >= less`, or `>` when strict. */
  private def comparisons(conjunct: Expression): Seq[(Expression, Expression, Boolean)] = conjunct match {
    case GreaterThanOrEqual(l, r) => Seq((l, r, false))
    case GreaterThan(l, r) => Seq((l, r, true))
    case LessThanOrEqual(l, r) => Seq((r, l, false))
    case LessThan(l, r) => Seq((r, l, true))
    case EqualTo(l, r) => Seq((l, r, false), (r, l, false))
    case EqualNullSafe(l, r) if !l.nullable || !r.nullable => Seq((l, r, false), (r, l, false))
    case _ => Nil
  }

  private def bound(
      greater: Expression,
      less: Expression,
      strict: Boolean,
      conjunct: Expression
  ): Option[FoundBound] =
    (greater, less) match {
      case (l: Attribute, r: Attribute) if WatermarkLineage.isWindow(l) && WatermarkLineage.isWindow(r) =>
        conjunct match {
          case _: EqualTo | _: EqualNullSafe => opposite(l, r, 0L, conjunct, exact = false)
          // Windows are ordered by their starts; of windows of two lengths, that says nothing about their ends.
          case _ => None
        }
      case _ =>
        for {
          more <- LinearTime.of(greater).toOption
          fewer <- LinearTime.of(less).toOption
          difference <- Try(more - fewer).toOption
          found <- difference match {
            // out - in + constant >= 0, and one microsecond less where the comparison is strict.
            case LinearTime(Seq(out), Seq(in), constant, slack) =>
              Try(Math.addExact(constant, slack - (if (strict) 1 else 0))).toOption
                .flatMap(opposite(out, in, _, conjunct, exact = slack == 0))
            case _ => None
          }
        } yield found
    }

  private def opposite(
      out: Attribute,
      in: Attribute,
      postpone: Long,
      conjunct: Expression,
      exact: Boolean
  ): Option[FoundBound] =
    (sideOf(out), sideOf(in)) match {
      case (Some(side), Some(other)) if side != other =>
        Some(FoundBound(side, out, in, postpone, conjunct, exact))
      case _ => None
    }

  private def why(greater: Expression, less: Expression): Option[String] =
    Seq(greater, less).map(LinearTime.of).collectFirst {
      case Left(LinearTime.Months(part)) => s"${part.sql} has months or years, whose length varies"
      case Left(LinearTime.Varies(part)) => s"${part.sql} varies from row to row"
    }
}

private[streamjoin] object PredicateParts extends PredicateHelper {
  def conjuncts(condition: Expression): Seq[Expression] = splitConjunctivePredicates(condition)

  def all(conjuncts: Seq[Expression]): Option[Expression] = conjuncts.reduceLeftOption(And(_, _))
}
