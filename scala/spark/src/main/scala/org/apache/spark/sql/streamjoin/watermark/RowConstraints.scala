package org.apache.spark.sql.streamjoin.watermark

import scala.util.Try

import org.apache.spark.sql.catalyst.expressions._

import streamjoin.core.TimeBound

/**
 * A constraint between two times of a row in which both are non-null: `out >= in - postpone`.
 *
 * @param postpone
 *   in microseconds
 * @param from
 *   conditions that imply it
 */
final private[streamjoin] case class RowConstraint(
    out: ExprId,
    in: ExprId,
    postpone: Long,
    from: Seq[RowConstraint.Source]
)

private[streamjoin] object RowConstraint {

  /**
   * A conjunct that every row has passed.
   *
   * @param ordinal
   *   ordinal of our operator whose condition has it, or none for a filter
   */
  final case class Source(ordinal: Option[Int], conjunct: Expression)
}

/**
 * The known constraints between the times in every row of a plan.
 *
 * The law: two constraints imply a constraint between two times through a third time only if that
 * third time is never null, because they do not apply to a row in which it is null.
 *
 * @param all
 *   tightest constraint for each pair of times
 * @param present
 *   columns that are never null
 */
final private[streamjoin] case class RowConstraints(all: Seq[RowConstraint], present: Set[ExprId]) {

  /** Adds all implied constraints, given that these columns are never null either. */
  def closed(alsoPresent: Set[ExprId]): RowConstraints = {
    val through = present ++ alsoPresent
    val steps = all.flatMap(constraint => Seq(constraint.out, constraint.in)).distinct.filter(through)
    val closure = steps.foldLeft(RowConstraints.tightest(all)) { (known, step) =>
      RowConstraints.tightest(known ++ (for {
        above <- known if above.in == step
        below <- known if below.out == step && below.in != above.out
        postpone <- Try(Math.addExact(above.postpone, below.postpone)).toOption
      } yield RowConstraint(above.out, below.in, postpone, (above.from ++ below.from).distinct)))
    }
    RowConstraints(closure, through)
  }

  def ++(that: RowConstraints): RowConstraints =
    RowConstraints(RowConstraints.tightest(all ++ that.all), present ++ that.present)

  /**
   * The largest distance of a time behind another one in its row, in microseconds, if it is known.
   */
  def maxLagMicros(column: ExprId, behind: ExprId): Option[Long] =
    all.find(constraint => constraint.out == column && constraint.in == behind).map(_.postpone)

  /** The constraints between some columns, each known by its position. */
  def among(columns: Seq[ExprId]): Seq[TimeBound] = for {
    constraint <- all
    (out, in) = (columns.indexOf(constraint.out), columns.indexOf(constraint.in))
    if out >= 0 && in >= 0
  } yield TimeBound(out, in, constraint.postpone)

  def within(columns: AttributeSet): RowConstraints = {
    val ids = columns.map(_.exprId).toSet
    RowConstraints(all.filter(c => ids(c.out) && ids(c.in)), present & ids)
  }
}

private[streamjoin] object RowConstraints {

  /** Nothing is known. */
  val none: RowConstraints = RowConstraints(Nil, Set.empty)

  /** Among several constraints on a pair of columns, the one with the smallest postpone time. */
  def tightest(constraints: Seq[RowConstraint]): Seq[RowConstraint] =
    constraints
      .groupBy(constraint => (constraint.out, constraint.in))
      .valuesIterator
      .map(_.minBy(constraint => (constraint.postpone, constraint.from.size)))
      .toSeq
      .sortBy(constraint => (constraint.out.id, constraint.in.id))
}
