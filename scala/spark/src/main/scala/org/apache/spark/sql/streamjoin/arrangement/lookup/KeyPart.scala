package org.apache.spark.sql.streamjoin.arrangement.lookup

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.execution.{ProjectExec, SparkPlan}
import org.apache.spark.sql.streamjoin.analysis.EquiKeys

/**
 * The expression with which a key column is looked up.
 *
 * @param decides
 *   condition that every found row satisfies
 */
final private[streamjoin] case class KeyPart(
    probe: Expression,
    nullSafe: Boolean,
    decides: Option[Expression]
)

private[streamjoin] object KeyPart {

  /**
   * The values with which the columns of a key are looked up, in terms of known columns; some may
   * be constants.
   */
  def ofKey(key: Seq[Attribute], known: AttributeSet, conditions: Seq[Expression]): Option[Seq[KeyPart]] =
    Some(parts(key, known, conditions)).filter(_.size == key.size).map(_.map(_._2))

  /** The columns that the conditions equate with known columns or with constants. */
  def equated(columns: Seq[Attribute], known: AttributeSet, conditions: Seq[Expression]): Seq[Attribute] =
    parts(columns, known, conditions).map(_._1)

  /** Empty if all are constants: each row would find the same ones. */
  private def parts(
      columns: Seq[Attribute],
      known: AttributeSet,
      conditions: Seq[Expression]
  ): Seq[(Attribute, KeyPart)] = {
    def isConstant(value: Expression) = value.foldable
    def isKnown(value: Expression) = value.references.nonEmpty && value.references.subsetOf(known)
    val found = for {
      column <- columns
      part <- of(column, isKnown, conditions).orElse(of(column, isConstant, conditions))
    } yield column -> part
    if (found.exists { case (_, part) => part.probe.references.nonEmpty }) found else Nil
  }

  private def of(
      column: Attribute,
      isValue: Expression => Boolean,
      conditions: Seq[Expression]
  ): Option[KeyPart] = {
    def side(condition: Expression, key: Expression, other: Expression, nullSafe: Boolean): Option[KeyPart] =
      Option
        .when(isColumn(key, column) && isValue(other))(other)
        .map { probe =>
          val typed =
            if (probe.dataType == column.dataType) probe
            else Cast(probe, column.dataType, zoneOf(key), EvalMode.TRY)
          val isSame = key.isInstanceOf[Attribute] && probe.dataType == column.dataType
          KeyPart(typed, nullSafe, Option.when(isSame)(condition))
        }
    conditions.iterator
      .flatMap {
        case same @ EqualTo(left, right) =>
          side(same, left, right, nullSafe = false).orElse(side(same, right, left, nullSafe = false))
        case same @ EqualNullSafe(left, right) if left.dataType == right.dataType =>
          side(same, left, right, nullSafe = true).orElse(side(same, right, left, nullSafe = true))
        case _ => None
      }
      .nextOption()
  }

  private def isColumn(expression: Expression, column: Attribute): Boolean = expression match {
    case attribute: Attribute => attribute.exprId == column.exprId
    case KnownNotNull(child) => isColumn(child, column)
    case cast: Cast => EquiKeys.isOneToOne(cast.child.dataType, cast.dataType) && isColumn(cast.child, column)
    case _ => false
  }

  private def zoneOf(key: Expression): Option[String] =
    key.collectFirst { case cast: Cast if cast.timeZoneId.isDefined => cast.timeZoneId }.flatten
}

/**
 * A look-up key, as columns.
 *
 * @param named
 *   existing columns and values to compute
 */
final private[streamjoin] case class KeyColumns(named: Seq[NamedExpression]) {
  def columns: Seq[Attribute] = named.map(_.toAttribute)

  def computed: Seq[NamedExpression] = named.collect { case value: Alias => value }

  /** Adds the computed columns to the rows. */
  def over(rows: SparkPlan): SparkPlan =
    if (computed.isEmpty) rows else ProjectExec(rows.output ++ computed, rows)
}

private[streamjoin] object KeyColumns {
  def of(key: Seq[Expression]): KeyColumns = KeyColumns(key.map {
    case attribute: Attribute => attribute
    case value => Alias(value, "key")()
  })
}
