package org.apache.spark.sql.streamjoin.joins.temporal

import scala.util.Try

import org.apache.spark.sql.catalyst.expressions.Literal.{FalseLiteral, TrueLiteral}
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{Join, LogicalPlan}
import org.apache.spark.sql.streamjoin.analysis.EquiKeys
import org.apache.spark.sql.types.{BooleanType, StringType, TimestampType}
import org.apache.spark.unsafe.types.UTF8String

import streamjoin.core.AsOf

/**
 * An equality of a temporal or as-of join, with the sides in the order of its inputs.
 *
 * @param left
 *   an expression over the left input, or a constant
 * @param nullSafe
 *   whether null matches null
 */
final private[temporal] case class InputEquality(
    conjunct: Expression,
    left: Expression,
    right: Expression,
    nullSafe: Boolean
) {

  /** A cast that Spark added for the comparison is also accepted if distinct keys stay distinct. */
  def isOfKey(key: Expression): Boolean = InputEquality.isKey(right, key)
}

private[temporal] object InputEquality {

  /** An equality between the inputs, in either orientation. */
  def between(conjunct: Expression, join: Join): Seq[InputEquality] = conjunct match {
    case equality @ Equality(a, b) =>
      val nullSafe = equality.isInstanceOf[EqualNullSafe]
      Seq(InputEquality(conjunct, a, b, nullSafe), InputEquality(conjunct, b, a, nullSafe)).filter { sides =>
        isOf(join.left)(sides.left) && isOf(join.right)(sides.right)
      }
    case _ => Nil
  }

  /** An equality of a key column with a constant. */
  def withConstant(conjunct: Expression): Option[InputEquality] =
    ConstantEquality
      .in(conjunct)
      .map(constant => InputEquality(conjunct, constant.value, constant.of, constant.nullSafe))

  /** Whether an expression reads one input, and no other. */
  def isOf(input: LogicalPlan)(expression: Expression): Boolean =
    expression.deterministic && expression.references.nonEmpty &&
      expression.references.subsetOf(input.outputSet)

  private def isKey(expression: Expression, key: Expression): Boolean = expression match {
    case same if same.semanticEquals(key) => true
    case cast: Cast => EquiKeys.isOneToOne(cast.child.dataType, cast.dataType) && isKey(cast.child, key)
    case _ => false
  }
}

/**
 * A conjunct that allows an expression only one value, in any spelling that the optimizer converts
 * to an equality.
 *
 * @param nullSafe
 *   whether null matches null
 */
final private[temporal] case class ConstantEquality(of: Expression, value: Expression, nullSafe: Boolean)

private[temporal] object ConstantEquality {
  def in(conjunct: Expression): Option[ConstantEquality] = conjunct match {
    case EqualTo(a, b) => oriented(a, b, nullSafe = false)
    case EqualNullSafe(a, b) => oriented(a, b, nullSafe = true)
    case In(of, values) if !isConstant(of) => onlyOne(values).map(ConstantEquality(of, _, nullSafe = false))
    case Like(of, value @ Literal(pattern: UTF8String, StringType), escape)
        if !pattern.toString.exists(Set('%', '_', escape)) =>
      Some(ConstantEquality(of, value, nullSafe = false))
    case Not(Not(condition)) => in(condition)
    case Not(EqualTo(a, b)) if a.dataType == BooleanType =>
      oriented(a, b, nullSafe = false).map(equality => equality.copy(value = Not(equality.value)))
    case Not(column) if isColumn(column) => Some(ConstantEquality(column, FalseLiteral, nullSafe = false))
    case column if isColumn(column) => Some(ConstantEquality(column, TrueLiteral, nullSafe = false))
    case _ => None
  }

  def isConstant(expression: Expression): Boolean =
    expression.deterministic && expression.references.isEmpty

  private def oriented(a: Expression, b: Expression, nullSafe: Boolean): Option[ConstantEquality] =
    if (isConstant(a) == isConstant(b)) None
    else if (isConstant(b)) Some(ConstantEquality(a, b, nullSafe))
    else Some(ConstantEquality(b, a, nullSafe))

  /** The value, which may be written several times; null equals nothing. */
  private def onlyOne(values: Seq[Expression]): Option[Expression] =
    if (!values.forall(isConstant)) None
    else
      values.map(value => value -> valueOf(value)).filter(_._2 != null).distinctBy(_._2) match {
        case Seq() => values.headOption
        case Seq((value, _)) => Some(value)
        case _ => None
      }

  private def valueOf(constant: Expression): Any =
    if (constant.foldable) Try(constant.eval()).getOrElse(constant.canonicalized) else constant.canonicalized

  private def isColumn(expression: Expression): Boolean = expression match {
    case _: Attribute => true
    case field: GetStructField => isColumn(field.child)
    case _ => false
  }
}

/**
 * The comparison of two times that defines an as-of join.
 *
 * @param isExact
 *   whether equal times match
 */
final private[temporal] case class ComparedTimes(
    left: Attribute,
    right: Attribute,
    direction: AsOf.Direction,
    isExact: Boolean
)

private[temporal] object ComparedTimes {

  /** In either orientation; none if the condition does not compare a time of each input. */
  def in(condition: Expression, join: Join): Option[ComparedTimes] = {
    def times(a: Expression, b: Expression) = (a, b) match {
      case (left: Attribute, right: Attribute)
          if join.left.outputSet.contains(left) && join.right.outputSet.contains(right) &&
            Seq(left, right).forall(_.dataType == TimestampType) =>
        Some(left -> right)
      case _ => None
    }
    def either(
        a: Expression,
        b: Expression,
        direction: AsOf.Direction,
        other: AsOf.Direction,
        isExact: Boolean
    ) =
      times(a, b)
        .map { case (left, right) => ComparedTimes(left, right, direction, isExact) }
        .orElse(times(b, a).map { case (left, right) => ComparedTimes(left, right, other, isExact) })
    condition match {
      case GreaterThanOrEqual(a, b) => either(a, b, AsOf.Backward, AsOf.Forward, isExact = true)
      case GreaterThan(a, b) => either(a, b, AsOf.Backward, AsOf.Forward, isExact = false)
      case LessThanOrEqual(a, b) => either(a, b, AsOf.Forward, AsOf.Backward, isExact = true)
      case LessThan(a, b) => either(a, b, AsOf.Forward, AsOf.Backward, isExact = false)
      case _ => None
    }
  }
}
