package org.apache.spark.sql.streamjoin.operator.explain

import org.apache.spark.sql.catalyst.expressions.{
  Attribute,
  AttributeReference,
  AttributeSet,
  ExprId,
  Expression
}
import org.apache.spark.sql.catalyst.plans.logical.{Join, LogicalPlan}
import org.apache.spark.sql.streamjoin.analysis.InputName
import org.apache.spark.sql.streamjoin.plans.StatefulNode
import org.apache.spark.sql.streamjoin.watermark.{ColumnWatermark, WatermarkId}

import streamjoin.core.Side

/**
 * User-facing names of the inputs, columns and expressions of a join.
 *
 * @param aliases
 *   aliases of the columns of an input that combines several streams
 */
final private[streamjoin] class JoinNames(
    names: Map[Side, InputName],
    left: AttributeSet,
    right: AttributeSet,
    aliases: Map[ExprId, String] = Map.empty
) {

  private def sideOf(attribute: Attribute): Option[Side] =
    if (left.contains(attribute)) Some(Side.Left)
    else if (right.contains(attribute)) Some(Side.Right)
    else None

  def name(side: Side): String = names(side).table

  private val ambiguous: Set[String] =
    (left.toSeq ++ right.toSeq)
      .groupBy(_.name)
      .collect { case (name, several) if several.size > 1 => name }
      .toSet

  private def qualifier(side: Side, attribute: Attribute): Option[String] =
    aliases
      .get(attribute.exprId)
      .orElse(names(side).alias)
      .orElse(if (ambiguous(attribute.name)) Some(side.name) else None)

  def column(side: Side, attribute: Attribute): String =
    (qualifier(side, attribute).toSeq :+ attribute.name).mkString(".")

  def columns(attributes: Seq[Attribute]): String =
    if (attributes.isEmpty) "none"
    else attributes.map(a => sideOf(a).fold(a.name)(column(_, a))).mkString(", ")

  /** An expression as SQL text, without Spark's expression ids. */
  def text(expression: Expression): String =
    expression
      .transform { case attribute: AttributeReference =>
        attribute.withQualifier(sideOf(attribute).flatMap(qualifier(_, attribute)).toSeq)
      }
      .sql
      .replace("`", "")
}

private[streamjoin] object JoinNames {

  /** Names the inputs left and right, whatever the user calls them. */
  def plain(left: Seq[Attribute], right: Seq[Attribute]): JoinNames =
    new JoinNames(
      Side.both.map(side => side -> sideName(side)).toMap,
      AttributeSet(left),
      AttributeSet(right)
    )

  /**
   * For text that the user copies into the query: uses the aliases from the expressions of the join
   * and of the joins below. Columns of an input without an alias keep their plain names.
   */
  def copyable(left: LogicalPlan, right: LogicalPlan, expressions: Seq[Expression]): JoinNames = {
    val below = (expressionsOfJoins(left) ++ expressionsOfJoins(right)).reverse.flatMap(aliases).toMap
    qualified(left.output, right.output, expressions, side => InputName(None, side.name), below)
  }

  /** Uses the aliases in the expressions of the join. */
  def qualified(left: Seq[Attribute], right: Seq[Attribute], expressions: Seq[Expression]): JoinNames =
    qualified(left, right, expressions, sideName, Map.empty)

  /**
   * @param below
   *   aliases of columns in the joins below, hidden if the join's input itself has an alias
   */
  private def qualified(
      left: Seq[Attribute],
      right: Seq[Attribute],
      expressions: Seq[Expression],
      unnamed: Side => InputName,
      below: Map[ExprId, String]
  ): JoinNames = {
    val carried = expressions.flatMap(aliases)
    val found = Side.both.map { side =>
      val columns = (if (side == Side.Left) left else right).map(_.exprId).toSet
      val own = carried.filter { case (id, _) => columns(id) }
      val handedOn = below.filter { case (id, _) => columns(id) }
      val asBelow = own.forall { case (id, alias) => handedOn.get(id).forall(_ == alias) }
      own.map(_._2).distinct match {
        case Seq(name) if !asBelow || !handedOn.values.exists(_ == name) =>
          (side -> InputName(Some(name), name), Nil)
        case _ => (side -> unnamed(side), handedOn.toSeq ++ own)
      }
    }
    new JoinNames(found.map(_._1).toMap, AttributeSet(left), AttributeSet(right), found.flatMap(_._2).toMap)
  }

  private def aliases(expression: Expression): Seq[(ExprId, String)] =
    expression
      .collect { case column: AttributeReference => column }
      .flatMap(column => column.qualifier.lastOption.map(column.exprId -> _))

  /** Top down. */
  private def expressionsOfJoins(plan: LogicalPlan): Seq[Expression] =
    plan.collect { case join @ (_: StatefulNode | _: Join) => join.expressions }.flatten

  /**
   * Uses the names in the analyzed query.
   *
   * @param sides
   *   side by watermark key; `watermarks` and `times` are also by watermark key
   */
  def of(
      sides: IndexedSeq[Side],
      watermarks: IndexedSeq[ColumnWatermark],
      times: Seq[Attribute],
      left: Seq[Attribute],
      right: Seq[Attribute],
      inputs: Map[WatermarkId, InputName]
  ): JoinNames = {
    val found = for {
      side <- Side.both
      known = sides.indices
        .filter(sides(_) == side)
        .flatMap(key => origin(watermarks(key)).flatMap(inputs.get).map(key -> _))
    } yield known.map(_._2).distinct match {
      case Seq() => (side -> sideName(side), Nil)
      case Seq(one) => (side -> one, Nil)
      case several =>
        val columns = (if (side == Side.Left) left else right).flatMap { column =>
          column.qualifier.lastOption
            .filter(alias => several.exists(_.alias.contains(alias)))
            .map(column.exprId -> _)
        }
        val aliases = columns ++ known.flatMap { case (key, name) => name.alias.map(times(key).exprId -> _) }
        (side -> InputName(None, several.map(_.table).mkString(" with ")), aliases)
    }
    new JoinNames(found.map(_._1).toMap, AttributeSet(left), AttributeSet(right), found.flatMap(_._2).toMap)
  }

  private def sideName(side: Side): InputName = InputName(Some(side.name), side.name)

  private def origin(watermark: ColumnWatermark): Option[WatermarkId] = watermark match {
    case ColumnWatermark.Marked(origin) => Some(origin)
    case ColumnWatermark.Shifted(_, column, _) => origin(column)
    case output: ColumnWatermark.Output => origin(output.columns(output.key))
    case _ => None
  }
}
