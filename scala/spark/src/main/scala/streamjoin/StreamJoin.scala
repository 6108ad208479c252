package streamjoin

import org.apache.spark.sql.streaming.StreamingQuery
import org.apache.spark.sql.streamjoin.StreamJoinExtensions
import org.apache.spark.sql.streamjoin.base.{BuiltJar, TextArgument}
import org.apache.spark.sql.streamjoin.joins.interval.BoundsOfQuery
import org.apache.spark.sql.streamjoin.joins.temporal.VersionedInput
import org.apache.spark.sql.streamjoin.observe.read.LateRowsOfQuery
import org.apache.spark.sql.{DataFrame, SparkSession}

/**
 * Joins of streams. Each function returns a builder: name the columns with `on`, set what the join
 * has besides, and get the DataFrame with `toDF`.
 *
 * {{{
 * StreamJoin.interval(orders, deliveries).on("order_id").within("0 seconds", "1 hour").toDF()
 * }}}
 *
 * A plain `join` of two streams needs none of this: with time bounds in its condition it runs on
 * streamjoin as it is. The session needs
 * `spark.sql.extensions=org.apache.spark.sql.streamjoin.StreamJoinExtensions`.
 *
 * Durations are text, as `withWatermark` takes it (`"1 hour 30 minutes"`), or
 * `java.time.Duration`. Errors are `AnalysisException`s whose condition begins with `STREAMJOIN_`.
 */
object StreamJoin {

  /**
   * A join of two streams whose event times differ by a given duration at most, or of a stream with
   * a table; see [[IntervalJoin]].
   */
  def interval(left: DataFrame, right: DataFrame): IntervalJoin = new IntervalJoin(left, right)

  /** A join within a sliding window, in the order of time; see [[WindowJoin]]. */
  def window(left: DataFrame, right: DataFrame): WindowJoin = new WindowJoin(left, right)

  /** Each row with the version of a table that was valid at its time; see [[TemporalJoin]]. */
  def temporal(stream: DataFrame, versions: VersionedStream): TemporalJoin =
    new TemporalJoin(stream, versions)

  /** Each row with the row of another stream that is closest in time; see [[AsOfJoin]]. */
  def asOf(left: DataFrame, right: DataFrame): AsOfJoin = new AsOfJoin(left, right)

  /** A join of arrangements that keeps nothing of its own; see [[DeltaJoin]]. */
  def delta(spark: SparkSession): DeltaJoin = new DeltaJoin(spark)

  /** A stream of the versions of a table, for [[temporal]]. */
  def versions(changes: DataFrame): VersionedStream = new VersionedStream(VersionedInput(changes))

  /**
   * The time bounds of all stream-stream joins in a DataFrame, one per row: number of the join,
   * from the inputs up; side whose rows the bound keeps; the name of that input; its event-time
   * column; the bound; what it keeps; the conjunct it comes from, and where that is. An event-time
   * column without a bound has a row that says where its watermark comes from.
   *
   * @throws org.apache.spark.sql.AnalysisException
   *   for a join that `start()` would reject
   */
  def bounds(df: DataFrame): DataFrame = BoundsOfQuery.of(df)

  /**
   * The rows that the joins of a query have dropped as late, up to its last committed batch. The
   * query runs with `spark.streamjoin.lateRows=keep`.
   *
   * @throws org.apache.spark.sql.AnalysisException
   *   if the query does not keep them
   */
  def lateRows(query: StreamingQuery): DataFrame =
    LateRowsOfQuery.of(query.sparkSession, query, streaming = false)

  /** The same as a stream, which goes on as rows are dropped. */
  def lateRowsStream(query: StreamingQuery): DataFrame =
    LateRowsOfQuery.of(query.sparkSession, query, streaming = true)

  /**
   * What the joins of a running query keep, who holds back whom, and what stands out, as the
   * function of Python: a row for each operator and each of its inputs, as an indented plan.
   */
  def explainAnalyze(query: StreamingQuery): DataFrame = explainAnalyze(query, withSkew = false)

  /** @param withSkew a row for each task, and the hottest keys of each input */
  def explainAnalyze(query: StreamingQuery, withSkew: Boolean): DataFrame =
    query.sparkSession.sql(s"SELECT * FROM sj_explain_analyze('${query.id}', $withSkew)")

  /**
   * What has become of the rows of a join's inputs that satisfy a condition, by the state after the
   * last ten batches.
   *
   * @param condition
   *   SQL text on the columns of an input
   */
  def why(query: StreamingQuery, condition: String): DataFrame = why(query, condition, "")

  /** @param batches how many of the last batches it looks back */
  def why(query: StreamingQuery, condition: String, batches: Int): DataFrame =
    why(query, condition, s", $batches")

  private def why(query: StreamingQuery, condition: String, more: String): DataFrame = {
    val text = TextArgument.sql(condition)
    query.sparkSession.sql(s"SELECT * FROM sj_why('${query.id}', $text$more)")
  }

  /** Whether a session has the extension. */
  def isEnabled(spark: SparkSession): Boolean = StreamJoinExtensions.isEnabled(spark)

  /** The version of streamjoin. */
  def version: String = BuiltJar.version

  /** The version of Spark that streamjoin was built for. */
  def sparkVersion: String = BuiltJar.sparkVersion
}
