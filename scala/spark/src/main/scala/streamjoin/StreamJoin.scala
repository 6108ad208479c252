package streamjoin

import org.apache.spark.sql.streaming.StreamingQuery
import org.apache.spark.sql.streamjoin.ScalaApi.{ask, invoke}
import org.apache.spark.sql.streamjoin.StreamJoinExtensions
import org.apache.spark.sql.streamjoin.base.BuiltJar
import org.apache.spark.sql.streamjoin.joins.temporal.VersionedInput
import org.apache.spark.sql.{DataFrame, SparkSession}

/**
 * Joins of streams. Each function returns a builder: set the columns with `on`, set the properties
 * of the join, and get the DataFrame with `toDF`.
 *
 * {{{
 * StreamJoin.interval(orders, deliveries).on("order_id").within("0 seconds", "1 hour").toDF()
 * }}}
 *
 * A plain `join` of two streams with time bounds in its condition needs no builder: it runs on
 * streamjoin without changes. The session needs
 * `spark.sql.extensions=org.apache.spark.sql.streamjoin.StreamJoinExtensions`.
 *
 * Durations are text in the format of `withWatermark` (`"1 hour 30 minutes"`), or
 * `java.time.Duration`. Errors are `AnalysisException`s whose condition begins with `STREAMJOIN_`.
 */
object StreamJoin {

  /**
   * Joins two streams whose event times differ by at most a given duration, or a stream with a
   * table; see [[IntervalJoin]].
   */
  def interval(left: DataFrame, right: DataFrame): IntervalJoin = new IntervalJoin(left, right)

  /**
   * Joins two streams within a sliding window, and emits the result in the order of time; see
   * [[WindowJoin]].
   */
  def window(left: DataFrame, right: DataFrame): WindowJoin = new WindowJoin(left, right)

  /**
   * Joins each row with the version of a table that was valid at the row's time; see
   * [[TemporalJoin]].
   */
  def temporal(stream: DataFrame, versions: VersionedStream): TemporalJoin =
    new TemporalJoin(stream, versions)

  /** Joins each row with the row of another stream that is closest in time; see [[AsOfJoin]]. */
  def asOf(left: DataFrame, right: DataFrame): AsOfJoin = new AsOfJoin(left, right)

  /** Joins arrangements without keeping state of its own; see [[DeltaJoin]]. */
  def delta(spark: SparkSession): DeltaJoin = new DeltaJoin(spark)

  /** Returns a stream as the versions of a table, for [[temporal]]. */
  def versions(changes: DataFrame): VersionedStream = new VersionedStream(VersionedInput(changes))

  /**
   * Returns the time bounds of all stream-stream joins in a DataFrame, one per row. The columns are
   * the number of the join, counted from the inputs up; the side whose rows the bound keeps; the
   * name of that input; its event-time column; the bound; what it keeps; and the conjunct that the
   * bound comes from, with its origin. An event-time column without a bound has a row that says
   * where its watermark comes from.
   *
   * @throws org.apache.spark.sql.AnalysisException
   *   for a join that `start()` would reject
   */
  def bounds(df: DataFrame): DataFrame = invoke(df, "sj_bounds")()

  /**
   * Returns how a query differs from the one of a checkpoint, one change per row. The columns are
   * the number of the join, counted from the inputs up; the property that differs; what it was and
   * what it is; what happens to the rows in state; what is known of the results; and advice. The
   * query is not started, and nothing is written.
   *
   * @param checkpoint
   *   folder of `checkpointLocation`
   * @throws org.apache.spark.sql.AnalysisException
   *   for a join that `start()` would reject
   */
  def evolution(df: DataFrame, checkpoint: String): DataFrame =
    invoke(df, "sj_evolution")("checkpoint" -> checkpoint)

  /**
   * Returns the rows that the joins of a query have dropped as late, up to its last committed
   * batch. The query must run with `spark.streamjoin.lateRows=keep`.
   *
   * @throws org.apache.spark.sql.AnalysisException
   *   if the query does not keep them
   */
  def lateRows(query: StreamingQuery): DataFrame =
    ask(query.sparkSession, "sj_late_rows", query.id, false)

  /**
   * Returns the rows that the joins of a query drop as late, as a stream that continues while the
   * query drops rows.
   */
  def lateRowsStream(query: StreamingQuery): DataFrame =
    ask(query.sparkSession, "sj_late_rows", query.id, true)

  /**
   * Returns what the joins of a running query keep, which input holds the others back, and hints
   * about what stands out. The result is an indented plan with a row for each operator and each of
   * its inputs, as in Python.
   */
  def explainAnalyze(query: StreamingQuery): DataFrame = explainAnalyze(query, withSkew = false)

  /**
   * Returns what the joins of a running query keep, which input holds the others back, and hints
   * about what stands out.
   *
   * @param withSkew
   *   adds a row for each task, and the hottest keys of each input
   */
  def explainAnalyze(query: StreamingQuery, withSkew: Boolean): DataFrame =
    ask(query.sparkSession, "sj_explain_analyze", query.id, withSkew)

  /**
   * Returns what has become of the rows of a join's inputs that satisfy a condition, based on the
   * state after the last ten batches.
   *
   * @param condition
   *   SQL text on the columns of an input
   */
  def why(query: StreamingQuery, condition: String): DataFrame =
    ask(query.sparkSession, "sj_why", query.id, condition)

  /**
   * Returns what has become of the rows of a join's inputs that satisfy a condition.
   *
   * @param condition
   *   SQL text on the columns of an input
   * @param batches
   *   the number of batches to look back
   */
  def why(query: StreamingQuery, condition: String, batches: Int): DataFrame =
    ask(query.sparkSession, "sj_why", query.id, condition, batches)

  /** Returns whether the session has the extension. */
  def isEnabled(spark: SparkSession): Boolean = StreamJoinExtensions.isEnabled(spark)

  /** The version of streamjoin. */
  def version: String = BuiltJar.version

  /** The version of Spark that streamjoin was built for. */
  def sparkVersion: String = BuiltJar.sparkVersion
}
