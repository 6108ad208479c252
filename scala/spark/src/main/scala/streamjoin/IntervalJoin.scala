package streamjoin

import java.time.Duration

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.streamjoin.joins.delta.DeltaJoins
import org.apache.spark.sql.streamjoin.joins.interval.IntervalJoins

/**
 * A join of two streams whose event times differ by a given duration at most: what
 * `left.join(right, ...)` returns, with the bounds in its condition. Without [[within]], the
 * condition has them.
 *
 * An input may also be a table that the stream looks up ([[Arrangement.table]]); of two tables the
 * result is a stream of the changes of their join, with `_diff`, as [[DeltaJoin]] has it. A table
 * is joined by its declared key if there is no `on`.
 */
final class IntervalJoin private[streamjoin] (left: DataFrame, right: DataFrame)
    extends JoinBuilder[IntervalJoin](left, right) {
  private var limits: Option[(Option[String], String)] = None

  override private[streamjoin] def self: IntervalJoin = this

  /** Adds `|right.time - left.time| <= distance` for the event-time columns of both inputs. */
  def within(distance: String): IntervalJoin = {
    limits = Some((None, distance))
    this
  }

  /** Adds the same. */
  def within(distance: Duration): IntervalJoin = within(Durations.text(distance))

  /**
   * Adds `lower <= right.time - left.time <= upper`. A limit may be negative. From a day up, days
   * are calendar days of the session's time zone, as in all of Spark's interval arithmetic.
   */
  def within(lower: String, upper: String): IntervalJoin = {
    limits = Some((Some(lower), upper))
    this
  }

  /** Adds the same. */
  def within(lower: Duration, upper: Duration): IntervalJoin =
    within(Durations.text(lower), Durations.text(upper))

  override def toDF(): DataFrame = limits match {
    case Some((lower, upper)) => IntervalJoins.within(joined, lower, upper)
    case None if left.isStreaming || right.isStreaming => joined
    case None =>
      val plain = joined
      DeltaJoins.ofTables(plain).getOrElse(plain)
  }
}
