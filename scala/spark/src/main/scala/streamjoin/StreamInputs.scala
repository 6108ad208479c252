package streamjoin

import java.time.Duration

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.streamjoin.{StreamInputs => Inputs}

/**
 * What a query may declare about one of its streams beyond `withWatermark`. Each function returns
 * the stream to use in the join instead.
 */
object StreamInputs {

  /**
   * `withWatermark`, with its arguments checked.
   *
   * @param time
   *   `TIMESTAMP` column. A null in it does not move the watermark.
   * @param lag
   *   how late a row may be, zero or longer; rounded up to whole milliseconds
   */
  def imposeOrder(df: DataFrame, time: String, lag: String): DataFrame = Inputs.imposeOrder(df, time, lag)

  /** The same. */
  def imposeOrder(df: DataFrame, time: String, lag: Duration): DataFrame =
    imposeOrder(df, time, Durations.text(lag))

  /** The rows in ascending order of a column that has a watermark, over all tasks and batches. */
  def sorted(df: DataFrame, time: String): DataFrame = Inputs.ordered(df, time)

  /**
   * A stream whose rows are data and bounds (punctuation); [[BoundedStream]].
   *
   * @param time
   *   event-time column, of data and bounds alike
   * @param isBound
   *   boolean column: true for a bound, false or null for data. It is not in the result.
   */
  def withBounds(df: DataFrame, time: String, isBound: String): BoundedStream =
    new BoundedStream(df, time, isBound)

  /**
   * A stream that stops holding others back once it has received no rows for the timeout.
   *
   * @param timeout
   *   one millisecond or longer
   */
  def idleAfter(df: DataFrame, timeout: String): DataFrame = Inputs.idleAfter(df, timeout)

  /** The same. */
  def idleAfter(df: DataFrame, timeout: Duration): DataFrame = idleAfter(df, Durations.text(timeout))
}

/**
 * A stream with bounds. A bound says that no row before its time, minus the lag, is still to come:
 * it moves the watermark of the following batches and is then dropped. A bound that goes back in
 * time moves nothing.
 */
final class BoundedStream private[streamjoin] (df: DataFrame, time: String, isBound: String) {
  private var late, partition = Option.empty[String]

  /** How late a row may be; left out if the column already has a watermark. */
  def lag(lag: String): BoundedStream = {
    late = Some(lag)
    this
  }

  /** The same. */
  def lag(lag: Duration): BoundedStream = this.lag(Durations.text(lag))

  /**
   * The column that identifies the stream's partitions, if each has its own bounds. The watermark
   * is then the lowest of the partitions that have sent a row.
   */
  def per(column: String): BoundedStream = {
    partition = Some(column)
    this
  }

  /** The rows of data. */
  def toDF(): DataFrame = Inputs.withBounds(df, time, isBound, late, partition)
}
