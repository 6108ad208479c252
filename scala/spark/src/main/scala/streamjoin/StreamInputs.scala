package streamjoin

import java.time.Duration

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.streamjoin.ScalaApi.invoke

/**
 * Properties that a query may declare for one of its streams in addition to `withWatermark`. Each
 * function returns the stream to use in the join in place of the original.
 */
object StreamInputs {

  /**
   * Calls `withWatermark`, after checking its arguments.
   *
   * @param time
   *   a `TIMESTAMP` column. A null in it does not move the watermark.
   * @param lag
   *   how late a row may be, zero or longer; rounded up to whole milliseconds
   */
  def imposeOrder(df: DataFrame, time: String, lag: String): DataFrame =
    invoke(df, "sj_impose_order")("time" -> time, "lag" -> lag)

  /** Calls `withWatermark`, after checking the column and the lag. */
  def imposeOrder(df: DataFrame, time: String, lag: Duration): DataFrame =
    imposeOrder(df, time, Durations.text(lag))

  /**
   * Returns the rows in ascending order of a column that has a watermark, across all tasks and
   * batches.
   */
  def sorted(df: DataFrame, time: String): DataFrame = invoke(df, "sj_sorted")("time" -> time)

  /**
   * Returns a stream whose rows are either data or bounds (punctuation); see [[BoundedStream]].
   *
   * @param time
   *   event-time column, of data and bounds alike
   * @param isBound
   *   boolean column: true for a bound, false or null for data. The result does not have it.
   */
  def withBounds(df: DataFrame, time: String, isBound: String): BoundedStream =
    new BoundedStream(df, time, isBound)

  /**
   * Returns a stream that stops holding other inputs back once it has received no rows for the
   * timeout.
   *
   * @param timeout
   *   one millisecond or longer
   */
  def idleAfter(df: DataFrame, timeout: String): DataFrame =
    invoke(df, "sj_idle_after")("after" -> timeout)

  /** Returns a stream that stops holding others back after the timeout without rows. */
  def idleAfter(df: DataFrame, timeout: Duration): DataFrame = idleAfter(df, Durations.text(timeout))
}

/**
 * A stream with bounds. A bound states that no row with an earlier time, minus the lag, will
 * arrive. It moves the watermark of the following batches and is then dropped. A bound that goes
 * back in time has no effect.
 */
final class BoundedStream private[streamjoin] (df: DataFrame, time: String, isBound: String) {
  private var arguments = Map[String, Any]("time" -> time, "is_bound" -> isBound)

  /** Sets how late a row may be. Leave it out if the column already has a watermark. */
  def lag(lag: String): BoundedStream = set("lag" -> lag)

  /** Sets how late a row may be. */
  def lag(lag: Duration): BoundedStream = this.lag(Durations.text(lag))

  /**
   * Sets the column that identifies the stream's partitions, if each partition has its own bounds.
   * The watermark is then the lowest of the partitions that have sent a row.
   */
  def per(column: String): BoundedStream = set("per" -> column)

  /** Returns the rows of data, without the bounds. */
  def toDF(): DataFrame = invoke(df, "sj_with_bounds")(arguments.toSeq: _*)

  private def set(argument: (String, String)): BoundedStream = {
    arguments += argument
    this
  }
}
