package org.apache.spark.sql.streamjoin.analysis

import org.apache.spark.sql.catalyst.expressions.{Left => _, Right => _, _}
import org.apache.spark.sql.catalyst.plans.logical.{Join, LogicalPlan, Project}
import org.apache.spark.sql.catalyst.plans.{LeftAnti, LeftSemi}
import org.apache.spark.sql.streamjoin.plans.RowtimeOrder
import org.apache.spark.sql.streamjoin.time.EventTime
import org.apache.spark.sql.types.{DayTimeIntervalType, MetadataBuilder}

import streamjoin.core.Side

/**
 * A sliding window over one input of a join, as in `OVER (RANGE INTERVAL '10' MINUTE FOLLOWING)`.
 *
 * @param micros
 *   its length; a row of the other input sees the rows of this input whose time is at most so much
 *   later (following) or earlier (preceding) than its own
 */
final private[streamjoin] case class JoinWindow(micros: Long, isFollowing: Boolean)

/**
 * A join with windows over one input or both, with output in the order of rowtime, in terms of a
 * plain join with time bounds.
 *
 * The rowtime of a pair is the time of the row without a window; of two rows with windows the later
 * time. A row without a match has the latest rowtime that a match could have given it, so nothing
 * that comes after it in the output has to wait for it.
 */
private[streamjoin] object WindowJoin {

  /** The name of the column that the output has beside those of the inputs. */
  val Rowtime = "rowtime"

  /**
   * @param join
   *   resolved; its condition is kept, and the windows are added to it
   * @param windows
   *   one or two
   * @param times
   *   the event-time column of each input
   */
  def of(join: Join, windows: Map[Side, JoinWindow], times: Map[Side, Attribute]): LogicalPlan =
    new WindowJoin(join, windows, times).plan
}

final private class WindowJoin(join: Join, windows: Map[Side, JoinWindow], times: Map[Side, Attribute]) {
  private val (leftTime, rightTime) = (times(Side.Left), times(Side.Right))

  /** The least and the greatest `right.time - left.time`. Two windows allow what either allows. */
  private val (least, greatest) = {
    val spans = windows.map { case (side, JoinWindow(micros, isFollowing)) =>
      if ((side == Side.Right) == isFollowing) (0L, micros) else (-micros, 0L)
    }
    (spans.map(_._1).min, spans.map(_._2).max)
  }

  /** The input without a window. */
  private val center: Option[Side] = Side.both.find(!windows.contains(_))

  def plan: LogicalPlan = {
    val bounds = And(
      GreaterThanOrEqual(rightTime, later(leftTime, least)),
      LessThanOrEqual(rightTime, later(leftTime, greatest))
    )
    val bounded = join.copy(condition = Some(join.condition.fold[Expression](bounds)(And(_, bounds))))
    val mark = new MetadataBuilder()
      .withMetadata(times(center.getOrElse(Side.Left)).metadata)
      .putBoolean(EventTime.RowtimeKey, true)
      .build()
    val rowtime = Alias(rowtimeOf(bounded), WindowJoin.Rowtime)(explicitMetadata = Some(mark))
    RowtimeOrder(
      rowtime.toAttribute,
      ofJoin = true,
      // Of a left semi or anti join the right input is not in the output, and its rows wait for none.
      center
        .filter(side => windows(side.other).isFollowing)
        .map(times)
        .filter(bounded.outputSet.contains),
      Project(bounded.output :+ rowtime, bounded)
    )
  }

  private def rowtimeOf(join: Join): Expression = {
    // As they are in the output, where those of an outer join may be null.
    def out(side: Side): Attribute =
      join.output.find(_.exprId == times(side).exprId).getOrElse(times(side))
    val (left, right) = (out(Side.Left), out(Side.Right))
    join.joinType match {
      case LeftSemi | LeftAnti => alone(Side.Left, left)
      case _ =>
        val pair = center.fold[Expression](Greatest(Seq(left, right)))(out)
        If(
          IsNull(right),
          alone(Side.Left, left),
          If(IsNull(left), alone(Side.Right, right), pair)
        )
    }
  }

  /** The rowtime of a row without a match. */
  private def alone(side: Side, time: Attribute): Expression = center match {
    case Some(`side`) => time
    case Some(_) if windows(side).isFollowing => time
    case _ => later(time, if (side == Side.Left) greatest else -least)
  }

  private def later(time: Expression, micros: Long): Expression =
    if (micros == 0) time
    else
      TimestampAddInterval(time, Literal(micros, DayTimeIntervalType()), Some(join.conf.sessionLocalTimeZone))
}
