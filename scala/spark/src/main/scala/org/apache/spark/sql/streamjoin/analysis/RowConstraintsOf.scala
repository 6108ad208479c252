package org.apache.spark.sql.streamjoin.analysis

import scala.util.Try

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.plans.{InnerLike, LeftAnti, LeftOuter, LeftSemi}
import org.apache.spark.sql.streamjoin.base.PredicateParts
import org.apache.spark.sql.streamjoin.plans.StatefulNode
import org.apache.spark.sql.streamjoin.time.{
  EventTime,
  FixedWindow,
  LastInstant,
  LinearTime,
  TimeComparison,
  WindowedTime
}
import org.apache.spark.sql.streamjoin.watermark.{RowConstraint, RowConstraints}
import org.apache.spark.sql.types.TimestampType

/**
 * Derives the known constraints between the times in each row of a plan. Pure: plans in, data out.
 */
private[streamjoin] object RowConstraintsOf {
  import RowConstraints.{none, tightest}

  def apply(plan: LogicalPlan): RowConstraints = plan match {
    case node: StatefulNode => node.rowConstraints
    case Project(list, child) => projected(list, child)
    case Filter(condition, child) => filtered(PredicateParts.conjuncts(condition), apply(child))
    case union: Union => union.children.map(ofBranch(_, union.output)).reduce(inBoth)
    case join: Join =>
      val known = join.children.map(apply).reduce(_ ++ _).within(join.outputSet)
      known.copy(present = known.present & neverPadded(join))
    // One output row may combine many input rows (a session window grows with them).
    case _: Aggregate => none
    case leaf: LeafNode => RowConstraints(Nil, leaf.output.filterNot(_.nullable).map(_.exprId).toSet)
    case other => other.children.map(apply).foldLeft(none)(_ ++ _).within(other.outputSet)
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

  /** A projected column: its base column plus `least` to `most` microseconds. */
  private case class Derived(column: ExprId, base: ExprId, least: Long, most: Long)

  private def projected(list: Seq[NamedExpression], child: LogicalPlan): RowConstraints = {
    val below = apply(child)
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
    case column: Attribute if EventTime.isTime(column) =>
      Some(Derived(column.exprId, column.exprId, 0L, 0L))
    case alias @ Alias(LastInstant(window), _) => Some(Derived(alias.exprId, window.exprId, 0L, 0L))
    case alias @ Alias(child, _) if alias.dataType == TimestampType => ofTime(alias.exprId, child)
    case alias @ Alias(column: Attribute, _) if EventTime.isWindow(column) =>
      Some(Derived(alias.exprId, column.exprId, 0L, 0L))
    case alias @ Alias(WindowedTime(time), _) if EventTime.isWindow(alias.toAttribute) =>
      for {
        from <- ofTime(alias.exprId, time)
        length <- FixedWindow.length(alias)
      } yield from.copy(most = from.most + length - 1)
    case _ => None
  }

  private def ofTime(column: ExprId, time: Expression): Option[Derived] =
    LinearTime.of(time).toOption.collect { case LinearTime(Seq(base), Seq(), constant, below, above) =>
      Derived(column, base.exprId, constant - below, constant + above)
    }

  /** The constraints of a union's branch, in the union's columns. */
  private def ofBranch(branch: LogicalPlan, output: Seq[Attribute]): RowConstraints = {
    val known = apply(branch)
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

  /** The columns of a Spark join that it never pads with nulls. */
  private def neverPadded(join: Join): Set[ExprId] = {
    val columns = join.joinType match {
      case _: InnerLike | LeftSemi | LeftAnti => join.outputSet
      case LeftOuter => join.left.outputSet
      case _ => AttributeSet.empty
    }
    columns.map(_.exprId).toSet
  }
}
