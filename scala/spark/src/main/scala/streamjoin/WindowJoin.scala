package streamjoin

import java.time.Duration

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.streamjoin.joins.order.WindowJoins

import streamjoin.core.Side

/**
 * A join of two streams within a sliding window, in ascending order of time. A pair matches if the
 * right row is later than the left one by the length of the window at most. What differs is the
 * order: with [[following]] it is that of the left rows, with [[preceding]] that of the right rows.
 * A row is emitted as soon as no earlier one can come.
 *
 * The result has a column `rowtime` with the time of the order, which carries a watermark.
 */
final class WindowJoin private[streamjoin] (left: DataFrame, right: DataFrame)
    extends JoinBuilder[WindowJoin](left, right) {
  private var windows: Map[Side, String] = Map.empty

  override private[streamjoin] def self: WindowJoin = this

  /** A window over the right input, from a left row's time on. */
  def following(length: String): WindowJoin = over(Side.Right, length)

  /** The same. */
  def following(length: Duration): WindowJoin = following(Durations.text(length))

  /** A window over the left input, up to a right row's time. */
  def preceding(length: String): WindowJoin = over(Side.Left, length)

  /** The same. */
  def preceding(length: Duration): WindowJoin = preceding(Durations.text(length))

  private def over(side: Side, length: String): WindowJoin = {
    windows += side -> length
    this
  }

  override def toDF(): DataFrame = WindowJoins.of(joined, windows)
}
