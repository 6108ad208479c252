package org.apache.spark.sql.streamjoin.joins.temporal

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{Join, LogicalPlan}
import org.apache.spark.sql.streamjoin.analysis.EquiKeys

/**
 * An equality of a temporal or as-of join, with the sides in the order of its inputs.
 *
 * @param left
 *   an expression over the left input, or a constant
 * @param nullSafe
 *   whether null matches null
 */
final private[temporal] case class Tie(
    conjunct: Expression,
    left: Expression,
    right: Expression,
    nullSafe: Boolean
) {

  /** A cast that Spark added for the comparison is also accepted if distinct keys stay distinct. */
  def isOfKey(key: Expression): Boolean = Tie.isKey(right, key)
}

private[temporal] object Tie {

  /** An equality between the inputs, in either orientation. */
  def between(conjunct: Expression, join: Join): Seq[Tie] = conjunct match {
    case equality @ Equality(a, b) =>
      val nullSafe = equality.isInstanceOf[EqualNullSafe]
      Seq(Tie(conjunct, a, b, nullSafe), Tie(conjunct, b, a, nullSafe)).filter { tie =>
        isOf(join.left)(tie.left) && isOf(join.right)(tie.right)
      }
    case _ => Nil
  }

  /** An equality of a key column with a constant. */
  def withConstant(conjunct: Expression): Option[Tie] =
    ConstantEquality
      .in(conjunct)
      .map(equality => Tie(conjunct, equality.value, equality.of, equality.nullSafe))

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
