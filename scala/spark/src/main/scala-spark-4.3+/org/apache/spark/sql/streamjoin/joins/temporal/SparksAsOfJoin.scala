package org.apache.spark.sql.streamjoin.joins.temporal

import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans._
import org.apache.spark.sql.catalyst.plans.logical.{AsOfJoin, Join, LogicalPlan}
import org.apache.spark.sql.internal.SQLConf

/** Spark's own `ASOF JOIN` in SQL. */
private[streamjoin] object SparksAsOfJoin {

  /**
   * The join as Spark's own node, for inputs that are not both streams. Our parser handles such a
   * text only if Spark's parser rejects it: it has another of our clauses, or Spark's setting is
   * off.
   *
   * @throws AnalysisException
   *   Spark's own, if its setting is off
   */
  def of(join: Join, condition: Expression): Option[LogicalPlan] = {
    if (!SQLConf.get.sqlAsOfJoinEnabled)
      throw new AnalysisException(
        "UNSUPPORTED_FEATURE.ASOF_JOIN",
        Map("config" -> s""""${SQLConf.SQL_ASOF_JOIN_ENABLED.key}""""),
        join.origin
      )
    def made(left: Expression, operator: MatchComparisonOperator, right: Expression) = Some(
      AsOfJoin
        .fromMatchCondition(join.left, join.right, left, operator, right, join.condition, join.joinType, None)
    )
    condition match {
      case GreaterThanOrEqual(a, b) => made(a, GreaterThanOrEqualOp, b)
      case GreaterThan(a, b) => made(a, GreaterThanOp, b)
      case LessThanOrEqual(a, b) => made(a, LessThanOrEqualOp, b)
      case LessThan(a, b) => made(a, LessThanOp, b)
      case _ => None
    }
  }

  /** The `MATCH_CONDITION` of Spark's own node, if it comes from SQL. */
  def condition(node: AsOfJoin): Option[Expression] = for {
    left <- node.matchLeftOperand
    operator <- node.matchOperator
    right <- node.matchRightOperand
  } yield operator match {
    case GreaterThanOrEqualOp => GreaterThanOrEqual(left, right)
    case GreaterThanOp => GreaterThan(left, right)
    case LessThanOrEqualOp => LessThanOrEqual(left, right)
    case LessThanOp => LessThan(left, right)
  }
}
