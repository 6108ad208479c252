package org.apache.spark.sql.streamjoin.joins.interval

import java.time.{LocalDate, ZoneId}

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.util.DateTimeUtils
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streamjoin.base.PredicateParts
import org.apache.spark.sql.types.{StringType, TimestampType}

import streamjoin.core.Side

/**
 * The bound by a value of each row that an OR comes to. As a conjunct of its own, it bounds a join.
 *
 * {{{
 *   a.valid_to IS NULL OR b.t <= a.valid_to   b.t <= coalesce(a.valid_to, TIMESTAMP '9999-12-31')
 *   a.open OR b.t <= a.valid_to               b.t <= IF(a.open, TIMESTAMP '9999-12-31', a.valid_to)
 *   b.t <= a.valid_to OR b.t <= a.extended    b.t <= greatest(a.valid_to, a.extended)
 * }}}
 *
 * @param side
 *   side of the rows that it would let leave
 * @param values
 *   the ends in the alternatives
 * @param conjunct
 *   to be written
 * @param replaces
 *   whether it can be written in place of the OR; otherwise the OR only implies it
 */
final private[streamjoin] case class EndInOr(
    side: Side,
    values: Seq[Expression],
    conjunct: Expression,
    replaces: Boolean
)

/**
 * Finds such bounds.
 *
 * @param carried
 *   the bounds in a conjunct by values of rows
 * @param sideOf
 *   the side of an expression on one side alone
 */
final private[interval] class EndsInOr(
    carried: Expression => Seq[CarriedBound],
    sideOf: Expression => Option[Side]
) {

  def in(or: Or): Seq[EndInOr] = {
    val alternatives = EndsInOr.alternatives(or).map(PredicateParts.conjuncts)
    for {
      side <- Side.both
      first <- alternatives.flatten.flatMap(carried).find(_.side == side).toSeq
      each = alternatives.map(end(_, first))
      if each.forall(_.isDefined)
    } yield {
      val ends = each.flatten
      EndInOr(
        side,
        ends.collect { case Value(of) => of },
        conjunct(first, ends),
        alternatives.forall(_.size == 1)
      )
    }
  }

  /** The end that an alternative gives a row; none if it gives no end. */
  private def end(alternative: Seq[Expression], first: CarriedBound): Option[End] = {
    val bound = alternative.flatMap(carried).find { bound =>
      bound.side == first.side && bound.less.semanticEquals(first.less) && bound.strict == first.strict
    }
    bound
      .map(one => Value(one.value))
      .orElse(PredicateParts.all(alternative.filter(sideOf(_).contains(first.side))).map(Open(_)))
  }

  private def conjunct(first: CarriedBound, ends: Seq[End]): Expression = {
    val end = value(ends)
    if (first.strict) LessThan(first.less, end) else LessThanOrEqual(first.less, end)
  }

  private def value(ends: Seq[End]): Expression = {
    val latest = ends.collect { case Value(of) => of } match {
      case Seq(only) => only
      case several => Greatest(several)
    }
    ends.collect { case Open(when) => when }.reduceOption(Or(_, _)) match {
      case None => latest
      case Some(IsNull(tested)) if EndsInOr.isCast(latest, tested) =>
        Coalesce(Seq(latest, EndsInOr.openEnd))
      case Some(open) => If(open, EndsInOr.openEnd, latest)
    }
  }

  sealed private trait End

  /** The row ends at this time. */
  private case class Value(of: Expression) extends End

  /** The row does not end if this holds. */
  private case class Open(when: Expression) extends End
}

private[interval] object EndsInOr {

  def alternatives(expression: Expression): Seq[Expression] = expression match {
    case Or(l, r) => alternatives(l) ++ alternatives(r)
    case other => Seq(other)
  }

  /** Whether a value is null exactly if another one is. */
  private def isCast(value: Expression, of: Expression): Boolean = value.semanticEquals(of) || (value match {
    case cast: Cast => cast.child.dataType != StringType && isCast(cast.child, of)
    case _ => false
  })

  /** The last day, at which ends are open by custom. */
  private def openEnd: Expression = {
    val zone: ZoneId = DateTimeUtils.getZoneId(SQLConf.get.sessionLocalTimeZone)
    Literal(
      DateTimeUtils.instantToMicros(LocalDate.of(9999, 12, 31).atStartOfDay(zone).toInstant),
      TimestampType
    )
  }
}
