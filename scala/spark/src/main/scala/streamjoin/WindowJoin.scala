package streamjoin

import java.time.Duration

import org.apache.spark.sql.DataFrame

/**
 * Joins two streams within a sliding window, and emits the result in ascending order of time. A
 * pair matches if the right row is later than the left one by at most the length of the window.
 * [[following]] and [[preceding]] differ only in the order: that of the left rows with
 * [[following]], that of the right rows with [[preceding]]. A row is emitted as soon as no earlier
 * one can arrive.
 *
 * The result has a column `rowtime` with the time that orders it. This column carries a watermark.
 */
final class WindowJoin private[streamjoin] (left: DataFrame, right: DataFrame)
    extends JoinBuilder[WindowJoin](left, right) {

  /** Sets a window over the right input, which starts at a left row's time. */
  def following(length: String): WindowJoin = set("following" -> length)

  /** Sets a window over the right input, which starts at a left row's time. */
  def following(length: Duration): WindowJoin = following(Durations.text(length))

  /** Sets a window over the left input, which ends at a right row's time. */
  def preceding(length: String): WindowJoin = set("preceding" -> length)

  /** Sets a window over the left input, which ends at a right row's time. */
  def preceding(length: Duration): WindowJoin = preceding(Durations.text(length))

  override def toDF(): DataFrame = call("sj_window_join")
}
