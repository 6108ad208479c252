package org.apache.spark.sql.streamjoin.operator.explain

import org.apache.spark.sql.catalyst.expressions.{
  Alias,
  Attribute,
  AttributeReference,
  AttributeSet,
  ExprId,
  Expression,
  GetStructField
}
import org.apache.spark.sql.catalyst.plans.QueryPlan
import org.apache.spark.sql.catalyst.plans.logical.{Join, LogicalPlan}
import org.apache.spark.sql.streamjoin.analysis.InputName
import org.apache.spark.sql.streamjoin.plans.StatefulNode
import org.apache.spark.sql.streamjoin.time.BatchTime
import org.apache.spark.sql.streamjoin.watermark.{ColumnWatermark, WatermarkId}

import streamjoin.core.Side

/**
 * User-facing names of the inputs, columns and expressions of a join.
 *
 * @param aliases
 *   aliases of the columns of an input that combines several streams
 * @param fields
 *   columns that the optimizer has made of fields of structs, as the user writes them
 */
final private[streamjoin] class JoinNames(
    names: Map[Side, InputName],
    left: AttributeSet,
    right: AttributeSet,
    aliases: Map[ExprId, String] = Map.empty,
    fields: Map[ExprId, String] = Map.empty
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
    (qualifier(side, attribute).toSeq :+ written(attribute)).mkString(".")

  /**
   * The names of some columns, each a different one. Without aliases, two columns of an input that
   * combines several streams may have the same name: `left.t (1)`, `left.t (2)`.
   */
  def distinctColumns(of: Seq[(Side, Attribute)]): Seq[String] = {
    val all = of.map { case (side, attribute) => column(side, attribute) }
    all.zipWithIndex.map { case (name, at) =>
      if (all.count(_ == name) == 1) name else s"$name (${all.take(at + 1).count(_ == name)})"
    }
  }

  /** The name of a column as the user writes it, without that of its input. */
  def written(attribute: Attribute): String = fields.getOrElse(attribute.exprId, attribute.name)

  def columns(attributes: Seq[Attribute]): String =
    if (attributes.isEmpty) "none"
    else attributes.map(a => sideOf(a).fold(written(a))(column(_, a))).mkString(", ")

  /** An expression as SQL text, without Spark's expression ids. */
  def text(expression: Expression): String =
    expression
      .transform {
        case attribute: AttributeReference =>
          attribute
            .withName(written(attribute))
            .withQualifier(sideOf(attribute).flatMap(qualifier(_, attribute)).toSeq)
        case time: BatchTime => time.written
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
    qualified(left, right, expressions, side => InputName(None, side.name), below)
  }

  /** Uses the aliases in the expressions of the join. */
  def qualified[P <: QueryPlan[P]](left: P, right: P, expressions: Seq[Expression]): JoinNames =
    qualified(left, right, expressions, sideName, Map.empty)

  /**
   * @param below
   *   aliases of columns in the joins below, hidden if the join's input itself has an alias
   */
  private def qualified[P <: QueryPlan[P]](
      left: P,
      right: P,
      expressions: Seq[Expression],
      unnamed: Side => InputName,
      below: Map[ExprId, String]
  ): JoinNames = {
    val carried = expressions.flatMap(aliases)
    val found = Side.both.map { side =>
      val columns = (if (side == Side.Left) left else right).output.map(_.exprId).toSet
      val own = carried.filter { case (id, _) => columns(id) }
      val handedOn = below.filter { case (id, _) => columns(id) }
      val asBelow = own.forall { case (id, alias) => handedOn.get(id).forall(_ == alias) }
      own.map(_._2).distinct match {
        case Seq(name) if !asBelow || !handedOn.values.exists(_ == name) =>
          (side -> InputName(Some(name), name), Nil)
        case _ => (side -> unnamed(side), handedOn.toSeq ++ own)
      }
    }
    named(found.map(_._1).toMap, left, right, found.flatMap(_._2).toMap)
  }

  private def named[P <: QueryPlan[P]](
      names: Map[Side, InputName],
      left: P,
      right: P,
      aliases: Map[ExprId, String]
  ): JoinNames = new JoinNames(
    names,
    AttributeSet(left.output),
    AttributeSet(right.output),
    aliases,
    fieldsOf(left) ++ fieldsOf(right)
  )

  /**
   * The columns that the optimizer has made of fields (`NestedColumnAliasing`), as `window.end`.
   */
  private def fieldsOf[P <: QueryPlan[P]](plan: P): Map[ExprId, String] =
    if (!plan.output.exists(_.name.startsWith(ExtractedField))) Map.empty
    else
      plan
        .collect { case node => node.expressions }
        .flatten
        .collect {
          case alias @ Alias(field: GetStructField, name) if name.startsWith(ExtractedField) =>
            alias.exprId -> path(field)
        }
        .toMap

  private def path(expression: Expression): String = expression match {
    case field: GetStructField => s"${path(field.child)}.${field.extractFieldName}"
    case column: Attribute => column.name
    case other => other.sql.replace("`", "")
  }

  private val ExtractedField = "_extract_"

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
  def of[P <: QueryPlan[P]](
      sides: IndexedSeq[Side],
      watermarks: IndexedSeq[ColumnWatermark],
      times: Seq[Attribute],
      left: P,
      right: P,
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
        val columns = (if (side == Side.Left) left else right).output.flatMap { column =>
          column.qualifier.lastOption
            .filter(alias => several.exists(_.alias.contains(alias)))
            .map(column.exprId -> _)
        }
        val aliases = columns ++ known.flatMap { case (key, name) => name.alias.map(times(key).exprId -> _) }
        (side -> InputName(None, several.map(_.table).mkString(" with ")), aliases)
    }
    named(found.map(_._1).toMap, left, right, found.flatMap(_._2).toMap)
  }

  private def sideName(side: Side): InputName = InputName(Some(side.name), side.name)

  private def origin(watermark: ColumnWatermark): Option[WatermarkId] = watermark match {
    case ColumnWatermark.Marked(origin) => Some(origin)
    case ColumnWatermark.Shifted(_, column, _) => origin(column)
    case output: ColumnWatermark.Output => origin(output.columns(output.key))
    case _ => None
  }
}
