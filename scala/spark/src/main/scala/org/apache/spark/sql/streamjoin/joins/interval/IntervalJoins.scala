package org.apache.spark.sql.streamjoin.joins.interval

import org.apache.spark.sql.catalyst.expressions.{And, Expression}
import org.apache.spark.sql.catalyst.plans.logical.{Join, LogicalPlan}
import org.apache.spark.sql.streamjoin.analysis.{EventTimeOfInput, PlainJoin}
import org.apache.spark.sql.streamjoin.base.StreamJoinErrors
import org.apache.spark.sql.streamjoin.time.{DurationText, TimeDistance}

import streamjoin.core.Side

/** Joins of two streams with a bound on the distance between their event times. */
private[streamjoin] object IntervalJoins {
  private val Call = "within"

  private val Words = EventTimeOfInput.Words(Call, "STREAMJOIN_NOT_A_STREAM.BOUND")

  /**
   * Adds `lower <= right.time - left.time <= upper` to a join. Days are calendar days of the
   * session's time zone.
   *
   * @param joined
   *   the resolved `left.join(right, ...)`
   * @param lower
   *   duration as text; by default, `upper` negated
   */
  def within(joined: LogicalPlan, lower: Option[String], upper: String): LogicalPlan = {
    val greatest = DurationText.length(Call, "upper", upper)
    val least = lower.fold(-greatest)(DurationText.length(Call, "lower", _))
    if (least > greatest)
      throw StreamJoinErrors.analysis(
        "STREAMJOIN_WITHIN",
        "within" -> lower.fold(s"\"$upper\"")(from => s"(\"$from\", \"$upper\")"),
        "reason" -> "its lower limit is above its upper limit, so no two times would match"
      )
    PlainJoin.rewrite(Call, joined) { (join, names) =>
      val bounded = join.copy(condition = Some(condition(join, least, greatest)))
      names.fold[LogicalPlan](bounded)(_.withNewChildren(Seq(bounded)))
    }
  }

  private def condition(join: Join, least: Long, greatest: Long): Expression = {
    val left = EventTimeOfInput.of(join, Side.Left, Words)
    val right = EventTimeOfInput.of(join, Side.Right, Words)
    val bounds = TimeDistance.within(left, right, least, greatest)
    join.condition.fold[Expression](bounds)(And(_, bounds))
  }
}
