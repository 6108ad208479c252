package org.apache.spark.sql.streamjoin.operators.interval

import org.apache.spark.sql.catalyst.expressions.{
  Attribute,
  AttributeReference,
  AttributeSet,
  ExprId,
  Expression
}
import org.apache.spark.sql.catalyst.plans.logical.{Join, LogicalPlan}
import org.apache.spark.sql.catalyst.util.DateTimeConstants._
import org.apache.spark.sql.streamjoin.analysis.InputName
import org.apache.spark.sql.streamjoin.plans.StatefulNode
import org.apache.spark.sql.streamjoin.watermark.{ColumnWatermark, Origin}

import streamjoin.core.Side

/**
 * A join in words: what its inputs, columns and bounds are called.
 *
 * @param aliases
 *   of columns of an input that is itself made of several
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

  /** An expression in the words of SQL, without the numbers that Spark gives to columns. */
  def text(expression: Expression): String =
    expression
      .transform { case attribute: AttributeReference =>
        attribute.withQualifier(sideOf(attribute).flatMap(qualifier(_, attribute)).toSeq)
      }
      .sql
      .replace("`", "")

  /** The bounds of a join, and what gives a watermark to the event-time columns that have none. */
  def bounds(join: JoinPlan, times: Seq[Attribute]): Seq[BoundInWords] =
    join.found.map(bound) ++ times.indices.filterNot(join.bounds.expires).flatMap(derived(join, times, _))

  private def derived(join: JoinPlan, times: Seq[Attribute], key: Int): Seq[BoundInWords] = {
    val side = join.sides(key)
    val out = column(side, times(key))
    val reaching = for {
      bound <- join.bounds.reaching(key)
      constraint <- join.constraints
      if constraint.out == times(bound.out).exprId && constraint.in == times(bound.in).exprId
    } yield BoundInWords(
      side,
      name(side),
      times(key).name,
      JoinNames.inequality(column(side, times(bound.in)), out, bound.postpone),
      s"$out is held back with ${column(side, times(bound.in))}",
      constraint.from.map(source => text(source.conjunct)).mkString(" AND "),
      constraint.from.map(_.ordinal.fold("a filter")(n => s"join ${n + 1}")).distinct.mkString(", ")
    )
    if (reaching.nonEmpty) reaching
    else
      Seq(
        BoundInWords(
          side,
          name(side),
          times(key).name,
          "none",
          s"$out has no watermark in the output of this join",
          "",
          ""
        )
      )
  }

  private def bound(found: FoundBound): BoundInWords = {
    val in = column(found.side.other, found.in)
    val bound = JoinNames.inequality(in, column(found.side, found.out), found.postpone)
    val offset = math.abs(found.postpone)
    val keeps =
      if (found.postpone >= 0) s"${name(found.side)} kept ${JoinNames.duration(found.postpone)}"
      else s"${name(found.side)} kept until ${JoinNames.duration(offset)} before the watermark of $in"
    BoundInWords(
      found.side,
      name(found.side),
      found.out.name,
      bound,
      keeps,
      text(found.conjunct),
      BoundInWords.Own
    )
  }
}

/**
 * A time bound for people.
 *
 * @param side
 *   whose rows it keeps
 * @param input
 *   what the user calls that side
 * @param column
 *   the event-time column of that input
 * @param bound
 *   such as `d.time <= o.time + 1 hour`
 * @param keeps
 *   such as `orders kept 1 hour`
 * @param conjunct
 *   the part of the condition that it was found in
 * @param origin
 *   where that condition stands
 */
final private[streamjoin] case class BoundInWords(
    side: Side,
    input: String,
    column: String,
    bound: String,
    keeps: String,
    conjunct: String,
    origin: String
) {
  override def toString: String =
    if (origin == BoundInWords.Own) s"$bound: $keeps"
    else if (origin.isEmpty) keeps
    else s"$bound by $origin: $keeps"
}

private[streamjoin] object BoundInWords {
  val Own = "this join"
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
   * For words that the user copies into the query: the aliases that the expressions of the join
   * carry, and those of the joins below; columns of an input without one have their names only.
   */
  def copyable(left: LogicalPlan, right: LogicalPlan, expressions: Seq[Expression]): JoinNames = {
    val below = (expressionsOfJoins(left) ++ expressionsOfJoins(right)).reverse.flatMap(aliases).toMap
    qualified(left.output, right.output, expressions, side => InputName(None, side.name), below)
  }

  /** From the aliases that the expressions of the join carry. */
  def qualified(left: Seq[Attribute], right: Seq[Attribute], expressions: Seq[Expression]): JoinNames =
    qualified(left, right, expressions, sideName, Map.empty)

  /**
   * @param below the aliases of columns in the joins below, which are gone where the join's input
   * has one of its own
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
    new JoinNames(
      found.map(_._1).toMap,
      AttributeSet(left),
      AttributeSet(right),
      found.flatMap(_._2).toMap
    )
  }

  private def aliases(expression: Expression): Seq[(ExprId, String)] =
    expression
      .collect { case column: AttributeReference => column }
      .flatMap(column => column.qualifier.lastOption.map(column.exprId -> _))

  /** From the top down. */
  private def expressionsOfJoins(plan: LogicalPlan): Seq[Expression] =
    plan.collect { case join @ (_: StatefulNode | _: Join) => join.expressions }.flatten

  /** From the names in the analyzed query. */
  def of(
      join: JoinPlan,
      times: Seq[Attribute],
      left: Seq[Attribute],
      right: Seq[Attribute],
      inputs: Map[Origin, InputName]
  ): JoinNames = {
    val found = for {
      side <- Side.both
      known = join.keys(side).flatMap(key => origin(join.watermarks(key)).flatMap(inputs.get).map(key -> _))
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
    new JoinNames(
      found.map(_._1).toMap,
      AttributeSet(left),
      AttributeSet(right),
      found.flatMap(_._2).toMap
    )
  }

  private def sideName(side: Side): InputName = InputName(Some(side.name), side.name)

  private def origin(watermark: ColumnWatermark): Option[Origin] = watermark match {
    case ColumnWatermark.Marked(origin) => Some(origin)
    case ColumnWatermark.Shifted(_, column) => origin(column)
    case output: ColumnWatermark.Output => origin(output.columns(output.key))
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

  /** `out >= in - postpone`, as people write it. */
  private def inequality(in: String, out: String, postpone: Long): String =
    if (postpone == 0) s"$in <= $out"
    else s"$in <= $out ${if (postpone > 0) "+" else "-"} ${duration(math.abs(postpone))}"

  /** `1 hour 30 minutes` for a number of microseconds, none of it left out. */
  def duration(micros: Long): String = {
    val (parts, _) = Units.foldLeft((Seq.empty[String], micros)) { case ((done, rest), (length, unit)) =>
      val count = rest / length
      (if (count == 0) done else done :+ s"$count $unit${if (count == 1) "" else "s"}", rest % length)
    }
    if (parts.isEmpty) "0 seconds" else parts.mkString(" ")
  }
}
