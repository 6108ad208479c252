package org.apache.spark.sql.streamjoin.watermark

import scala.util.Try

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Left => _, Right => _, _}
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.plans.{InnerLike, LeftAnti, LeftOuter, LeftSemi}
import org.apache.spark.sql.streamjoin.analysis.{LinearTime, PredicateParts, TimeComparison}
import org.apache.spark.sql.streamjoin.plans.IntervalJoin
import org.apache.spark.sql.types.TimestampType

import streamjoin.core.{Left, Right, Side}

/**
 * What holds between two times of a row in which both are there: `out >= in - postpone`.
 *
 * @param postpone
 *   microseconds
 * @param from
 *   the conditions that it follows from
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
   * @param join
   *   the number of the join that it is a condition of, or none for a filter
   */
  final case class Source(join: Option[Int], conjunct: Expression)
}

/**
 * What is known of the times in every row of a plan.
 *
 * The law: a constraint between two times follows from two others through a third time only where that one is never
 * null, for about a row in which it is null they say nothing.
 *
 * @param all
 *   for each pair of times the tightest one
 * @param present
 *   columns that are never null
 */
final private[streamjoin] case class RowConstraints(all: Seq[RowConstraint], present: Set[ExprId]) {

  /** With all that follows, if these columns are never null either. */
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

  private def ++(that: RowConstraints): RowConstraints =
    RowConstraints(RowConstraints.tightest(all ++ that.all), present ++ that.present)

  private def within(columns: AttributeSet): RowConstraints = {
    val ids = columns.map(_.exprId).toSet
    RowConstraints(all.filter(c => ids(c.out) && ids(c.in)), present & ids)
  }
}

/** Reads a plan. Pure: plans in, data out. */
private[streamjoin] object RowConstraints {
  private val Nothing = RowConstraints(Nil, Set.empty)

  def of(plan: LogicalPlan): RowConstraints = plan match {
    case join: IntervalJoin => ofJoin(join)
    case Project(list, child) => projected(list, child)
    case Filter(condition, child) => filtered(PredicateParts.conjuncts(condition), of(child))
    case union: Union => union.children.map(ofBranch(_, union.output)).reduce(inBoth)
    case join: Join =>
      val known = join.children.map(of).reduce(_ ++ _).within(join.outputSet)
      known.copy(present = known.present & neverPadded(join))
    // What it hands on may stand for many rows (a session window grows with them).
    case _: Aggregate => Nothing
    case leaf: LeafNode => RowConstraints(Nil, leaf.output.filterNot(_.nullable).map(_.exprId).toSet)
    case other => other.children.map(of).foldLeft(Nothing)(_ ++ _).within(other.outputSet)
  }

  /** Of several constraints on a pair of columns, the one with the smallest postpone time. */
  private def tightest(constraints: Seq[RowConstraint]): Seq[RowConstraint] =
    constraints
      .groupBy(constraint => (constraint.out, constraint.in))
      .valuesIterator
      .map(_.minBy(constraint => (constraint.postpone, constraint.from.size)))
      .toSeq
      .sortBy(constraint => (constraint.out.id, constraint.in.id))

  /**
   * Pairs satisfy the bounds of the join. A padded row has what its own side has, and nulls in all times of the other side,
   * about which a constraint says nothing.
   */
  private def ofJoin(join: IntervalJoin): RowConstraints = {
    val joinType = join.plan.joinType
    val sides: Map[Side, (LogicalPlan, RowConstraints)] =
      Map(Left -> (join.left -> of(join.left)), Right -> (join.right -> of(join.right)))
    val own = join.plan.found.map { bound =>
      val source = RowConstraint.Source(Some(join.plan.ordinal), bound.conjunct)
      RowConstraint(bound.out.exprId, bound.in.exprId, bound.postpone, Seq(source))
    }
    val both = sides(Left)._2 ++ sides(Right)._2
    val met = RowConstraints(tightest(both.all ++ own), both.present)
      .closed(own.flatMap(bound => Seq(bound.out, bound.in)).toSet)
    val padded = Side.both.filter(joinType.pads)
    val result =
      if (padded.isEmpty) met
      else {
        def alone(constraint: RowConstraint): Boolean = padded.exists { side =>
          val columns = sides(side)._1.outputSet.map(_.exprId).toSet
          columns(constraint.out) && columns(constraint.in)
        }
        val kept = met.all.filterNot(alone) ++ padded.flatMap(sides(_)._2.all)
        // Both sides padded: no column is there in every row.
        RowConstraints(
          tightest(kept),
          if (padded.size == 1) sides(padded.head)._2.present else Set.empty
        )
      }
    result.within(join.outputSet)
  }

  private def filtered(conjuncts: Seq[Expression], child: RowConstraints): RowConstraints = {
    val compared = for {
      conjunct <- conjuncts
      comparison <- TimeComparison.in(conjunct)
    } yield RowConstraint(
      comparison.out.exprId,
      comparison.in.exprId,
      comparison.postpone,
      Seq(RowConstraint.Source(None, conjunct))
    )
    val notNull = conjuncts.collect { case IsNotNull(column: Attribute) => column.exprId }
    RowConstraints(
      tightest(child.all ++ compared),
      child.present ++ notNull ++ compared.flatMap(c => Seq(c.out, c.in))
    ).closed(Set.empty)
  }

  /** A column of a projection: a column below it, plus what lies between two numbers of microseconds. */
  private case class Derived(column: ExprId, base: ExprId, least: Long, most: Long)

  private def projected(list: Seq[NamedExpression], child: LogicalPlan): RowConstraints = {
    val below = of(child)
    val columns = list.flatMap(derived)
    val all = for {
      out <- columns
      in <- columns if in.column != out.column
      (postpone, from) <-
        if (out.base == in.base) Some((0L, Nil))
        else below.all.find(c => c.out == out.base && c.in == in.base).map(c => (c.postpone, c.from))
      moved <- Try(Math.subtractExact(Math.addExact(postpone, in.most), out.least)).toOption
    } yield RowConstraint(out.column, in.column, moved, from)
    RowConstraints(tightest(all), columns.filter(c => below.present(c.base)).map(_.column).toSet)
  }

  private def derived(expression: NamedExpression): Option[Derived] = expression match {
    case column: Attribute if WatermarkLineage.isTime(column) =>
      Some(Derived(column.exprId, column.exprId, 0L, 0L))
    case alias @ Alias(LastInstant(window), _) => Some(Derived(alias.exprId, window.exprId, 0L, 0L))
    case alias @ Alias(child, _) if alias.dataType == TimestampType =>
      LinearTime.of(child).toOption.collect { case LinearTime(Seq(base), Seq(), constant, below, above) =>
        Derived(alias.exprId, base.exprId, constant - below, constant + above)
      }
    case alias @ Alias(column: Attribute, _) if WatermarkLineage.isWindow(column) =>
      Some(Derived(alias.exprId, column.exprId, 0L, 0L))
    case alias: Alias if WatermarkLineage.isWindow(alias.toAttribute) =>
      for {
        base <- alias.references.toSeq match {
          case Seq(column) if column.dataType == TimestampType => Some(column)
          case _ => None
        }
        length <- windowLength(alias.child, base)
      } yield Derived(alias.exprId, base.exprId, 0L, length - 1)
    case _ => None
  }

  /** All windows of a column are as long as that of one instant. */
  private def windowLength(window: Expression, time: Attribute): Option[Long] = Try {
    val bound = BindReferences.bindReference(window, Seq(time))
    val first = bound.eval(InternalRow(0L)).asInstanceOf[InternalRow]
    first.getLong(1) - first.getLong(0)
  }.toOption

  /** A branch of a union, with the names of the union's columns. */
  private def ofBranch(branch: LogicalPlan, output: Seq[Attribute]): RowConstraints = {
    val known = of(branch)
    val name =
      branch.output.map(_.exprId).zip(output.map(_.exprId)).groupMap(_._1)(_._2).withDefaultValue(Nil)
    RowConstraints(
      for {
        constraint <- known.all
        out <- name(constraint.out)
        in <- name(constraint.in)
      } yield constraint.copy(out = out, in = in),
      known.present.flatMap(name)
    )
  }

  private def inBoth(one: RowConstraints, other: RowConstraints): RowConstraints = RowConstraints(
    for {
      here <- one.all
      there <- other.all.find(c => c.out == here.out && c.in == here.in)
    } yield here.copy(
      postpone = math.max(here.postpone, there.postpone),
      from = (here.from ++ there.from).distinct
    ),
    one.present & other.present
  )

  /** The columns of a join of Spark's that it does not pad with nulls. */
  private def neverPadded(join: Join): Set[ExprId] = {
    val columns = join.joinType match {
      case _: InnerLike | LeftSemi | LeftAnti => join.outputSet
      case LeftOuter => join.left.outputSet
      case _ => AttributeSet.empty
    }
    columns.map(_.exprId).toSet
  }
}
