package org.apache.spark.sql.streamjoin.analysis

import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeReference, AttributeSet, Expression}
import org.apache.spark.sql.catalyst.plans.logical.{EventTimeWatermark, Join, LogicalPlan, SubqueryAlias}
import org.apache.spark.sql.catalyst.util.DateTimeConstants._
import org.apache.spark.sql.streamjoin.plans.{HiddenJoin, JoinPlan}
import org.apache.spark.sql.streamjoin.watermark.{ColumnWatermark, Origin}

import streamjoin.core.{Left => LeftSide, Right => RightSide, Side}

/**
 * What the user calls an input.
 *
 * @param alias
 *   as the condition has it: `o`; none where columns stand by their names alone
 * @param table
 *   the name behind the alias, where there is one: `orders`
 */
final private[streamjoin] case class InputName(alias: Option[String], table: String)

private[streamjoin] object InputName {

  /**
   * The names around each mark of an analyzed query, below the join. Where the optimizer puts a source's columns in the
   * place of the query's, their qualifiers are gone, so the names are read here.
   */
  def of(analyzed: LogicalPlan): Map[Origin, InputName] = {
    def marks(
        plan: LogicalPlan,
        outer: Option[String],
        inner: Option[String]
    ): Seq[(EventTimeWatermark, Option[InputName])] =
      plan match {
        case mark: EventTimeWatermark =>
          Seq(mark -> outer.map(alias => InputName(Some(alias), inner.getOrElse(alias))))
        case SubqueryAlias(name, child) => marks(child, outer.orElse(Some(name.name)), Some(name.name))
        case _: Join | _: HiddenJoin => plan.children.flatMap(marks(_, None, None))
        case other => other.children.flatMap(marks(_, outer, inner))
      }
    val named = marks(analyzed, None, None)
    Origin
      .number(named.map(_._1.nodeId))
      .zip(named)
      .collect { case (origin, (_, Some(name))) => origin -> name }
      .toMap
  }
}

/** A join in words: what its inputs, columns and bounds are called. */
final private[streamjoin] class JoinNames(
    names: Map[Side, InputName],
    left: AttributeSet,
    right: AttributeSet
) {

  private def sideOf(attribute: Attribute): Option[Side] =
    if (left.contains(attribute)) Some(LeftSide) else if (right.contains(attribute)) Some(RightSide) else None

  def name(side: Side): String = names(side).table

  private val ambiguous: Set[String] = left.map(_.name).toSet & right.map(_.name).toSet

  private def qualifier(side: Side, attribute: Attribute): Option[String] =
    names(side).alias.orElse(if (ambiguous(attribute.name)) Some(side.name) else None)

  def column(side: Side, attribute: Attribute): String =
    (qualifier(side, attribute).toSeq :+ attribute.name).mkString(".")

  def columns(attributes: Seq[Attribute]): String =
    if (attributes.isEmpty) "none"
    else attributes.map(a => sideOf(a).fold(a.name)(column(_, a))).mkString(", ")

  /** An expression in the words of SQL, without the numbers that Spark gives to columns. */
  def text(expression: Expression): String =
    expression
      .transform { case attribute: AttributeReference =>
        attribute.withQualifier(sideOf(attribute).flatMap(qualifier(_, attribute)).toSeq)
      }
      .sql
      .replace("`", "")

  def bound(found: FoundBound): BoundInWords = {
    val (out, in) = (column(found.side, found.out), column(found.side.other, found.in))
    val offset = math.abs(found.postpone)
    val bound =
      if (offset == 0) s"$in <= $out"
      else s"$in <= $out ${if (found.postpone > 0) "+" else "-"} ${JoinNames.duration(offset)}"
    val keeps =
      if (found.postpone >= 0) s"${name(found.side)} kept ${JoinNames.duration(found.postpone)}"
      else s"${name(found.side)} kept until ${JoinNames.duration(offset)} before the watermark of $in"
    BoundInWords(name(found.side), found.out.name, bound, keeps, text(found.conjunct))
  }
}

/**
 * A time bound for people.
 *
 * @param side
 *   the name of the input whose rows it keeps
 * @param column
 *   the event-time column of that input
 * @param bound
 *   such as `d.time <= o.time + 1 hour`
 * @param keeps
 *   such as `orders kept 1 hour`
 * @param conjunct
 *   the part of the condition that it was found in
 */
final private[streamjoin] case class BoundInWords(
    side: String,
    column: String,
    bound: String,
    keeps: String,
    conjunct: String
) {
  override def toString: String = s"$bound: $keeps"
}

private[streamjoin] object JoinNames {

  /** The two inputs as left and right, whatever the user calls them. */
  def plain(left: Seq[Attribute], right: Seq[Attribute]): JoinNames =
    new JoinNames(
      Side.both.map(side => side -> sideName(side)).toMap,
      AttributeSet(left),
      AttributeSet(right)
    )

  /**
   * For words that the user copies into the query: the aliases that the expressions of the join carry; columns of an
   * input without one stand by their names.
   */
  def copyable(left: Seq[Attribute], right: Seq[Attribute], expressions: Seq[Expression]): JoinNames =
    qualified(left, right, expressions, side => InputName(None, side.name))

  /** From the aliases that the expressions of the join carry. */
  def qualified(left: Seq[Attribute], right: Seq[Attribute], expressions: Seq[Expression]): JoinNames =
    qualified(left, right, expressions, sideName)

  private def qualified(
      left: Seq[Attribute],
      right: Seq[Attribute],
      expressions: Seq[Expression],
      unnamed: Side => InputName
  ): JoinNames = {
    val (leftSet, rightSet) = (AttributeSet(left), AttributeSet(right))
    val columns = expressions.flatMap(_.collect { case column: AttributeReference => column })
    val names = Side.both.map { side =>
      val own = columns.filter(if (side == LeftSide) leftSet.contains(_) else rightSet.contains(_))
      val alias = own.flatMap(_.qualifier.lastOption).headOption
      side -> alias.fold(unnamed(side))(name => InputName(Some(name), name))
    }
    new JoinNames(names.toMap, leftSet, rightSet)
  }

  /** From the names in the analyzed query. */
  def of(
      join: JoinPlan,
      left: Seq[Attribute],
      right: Seq[Attribute],
      inputs: Map[Origin, InputName]
  ): JoinNames = {
    val names = Side.both.map { side =>
      val origins = join.keys(side).flatMap(key => origin(join.watermarks(key)))
      side -> origins.flatMap(inputs.get).headOption.getOrElse(sideName(side))
    }
    new JoinNames(names.toMap, AttributeSet(left), AttributeSet(right))
  }

  private def sideName(side: Side): InputName = InputName(Some(side.name), side.name)

  private def origin(watermark: ColumnWatermark): Option[Origin] = watermark match {
    case ColumnWatermark.Marked(origin) => Some(origin)
    case ColumnWatermark.Shifted(_, column) => origin(column)
    case _ => None
  }

  private val Units = Seq(
    MICROS_PER_DAY -> "day",
    MICROS_PER_HOUR -> "hour",
    MICROS_PER_MINUTE -> "minute",
    MICROS_PER_SECOND -> "second",
    MICROS_PER_MILLIS -> "millisecond",
    1L -> "microsecond"
  )

  /** `1 hour 30 minutes` for a number of microseconds, none of it left out. */
  def duration(micros: Long): String = {
    val (parts, _) = Units.foldLeft((Seq.empty[String], micros)) { case ((done, rest), (length, unit)) =>
      val count = rest / length
      (if (count == 0) done else done :+ s"$count $unit${if (count == 1) "" else "s"}", rest % length)
    }
    if (parts.isEmpty) "0 seconds" else parts.mkString(" ")
  }
}
