package streamjoin

import java.time.Duration

import org.apache.spark.sql.DataFrame

/**
 * Joins two streams whose event times differ by at most a given duration. The result is that of
 * `left.join(right, ...)` with the bounds in its condition. Without [[within]], the condition must
 * contain the bounds.
 *
 * An input may also be a table that the stream looks up ([[Arrangement.table]]). The join of two
 * tables is a stream of the changes of their join, with `_diff`, like that of [[DeltaJoin]].
 * Without `on`, a table is joined by its declared key.
 */
final class IntervalJoin private[streamjoin] (left: DataFrame, right: DataFrame)
    extends JoinBuilder[IntervalJoin](left, right) {

  /**
   * Adds the bound `|right.time - left.time| <= distance` on the event-time columns of both inputs.
   */
  def within(distance: String): IntervalJoin = set("lower" -> None, "upper" -> distance)

  /** Adds the bound `|right.time - left.time| <= distance`. */
  def within(distance: Duration): IntervalJoin = within(Durations.text(distance))

  /**
   * Adds the bound `lower <= right.time - left.time <= upper`. A limit may be negative. In limits
   * of a day or more, days are calendar days of the session's time zone, as in all interval
   * arithmetic of Spark.
   */
  def within(lower: String, upper: String): IntervalJoin = set("lower" -> lower, "upper" -> upper)

  /** Adds the bound `lower <= right.time - left.time <= upper`. */
  def within(lower: Duration, upper: Duration): IntervalJoin =
    within(Durations.text(lower), Durations.text(upper))

  override def toDF(): DataFrame =
    if (arguments.nonEmpty) call("sj_within")
    else if (left.isStreaming || right.isStreaming || !StreamJoin.isEnabled(left.sparkSession)) joined
    else call("sj_changes")
}
