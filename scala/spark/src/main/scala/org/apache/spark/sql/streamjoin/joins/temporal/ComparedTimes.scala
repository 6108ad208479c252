package org.apache.spark.sql.streamjoin.joins.temporal

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.Join
import org.apache.spark.sql.types.TimestampType

import streamjoin.core.AsOf

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
