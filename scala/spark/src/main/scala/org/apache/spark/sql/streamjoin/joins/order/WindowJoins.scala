package org.apache.spark.sql.streamjoin.joins.order

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.streamjoin.analysis.{EventTimeOfInput, PlainJoin}
import org.apache.spark.sql.streamjoin.base.StreamJoinErrors
import org.apache.spark.sql.streamjoin.time.DurationText

import streamjoin.core.{JoinWindow, JoinWindows, Side}

/** Joins with a sliding window over one input, in rowtime order. */
private[streamjoin] object WindowJoins {
  private val Call = "sj.window_join"

  private val Words = EventTimeOfInput.Words(Call, "STREAMJOIN_NOT_A_STREAM.INPUT")

  /**
   * Adds a window to a join.
   *
   * @param joined
   *   the resolved `left.join(right, ...)`
   * @param windows
   *   the input with the window, and the length of it as text. Over the right input it begins at a
   *   left row; over the left one it ends at a right row.
   */
  def of(joined: LogicalPlan, windows: Map[Side, String]): LogicalPlan =
    windows.toSeq match {
      case Seq((side, length)) =>
        val argument = if (side == Side.Right) "following" else "preceding"
        val micros = DurationText.length(Call, argument, length)
        if (micros <= 0) throw rejected(s"a window without length, '$length'")
        of(joined, JoinWindows(Map(side -> JoinWindow(micros, isFollowing = side == Side.Right))))
      case given => throw rejected(if (given.isEmpty) "neither of the two" else "both")
    }

  def of(joined: LogicalPlan, windows: JoinWindows): LogicalPlan =
    PlainJoin.rewrite(Call, joined) { (join, names) =>
      WindowJoinBuilder.of(
        join,
        names,
        windows,
        Side.both.map(side => side -> EventTimeOfInput.of(join, side, Words)).toMap
      )
    }

  private def rejected(found: String) = StreamJoinErrors.analysis("STREAMJOIN_WINDOW", "found" -> found)
}
