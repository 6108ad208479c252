package org.apache.spark.sql.streamjoin

import org.apache.spark.sql.catalyst.plans.logical.{Filter, LogicalPlan}
import org.apache.spark.sql.classic.{Dataset => ClassicDataset}
import org.apache.spark.sql.streamjoin.analysis.{AsOfJoins, VersionColumns}
import org.apache.spark.sql.{Column, DataFrame, Row}

/**
 * Joins of a stream with what was valid at the time of its rows, or with the closest rows of another
 * stream. `joined` is the plain join of the two, inner or left: `left.join(right, condition, how)`.
 *
 * Durations are text as `withWatermark` takes it.
 */
object TemporalJoins {
  private val Temporal = new AsOfJoins("sj.temporal_join", "temporal")
  private val Closest = new AsOfJoins("sj.asof_join", "as-of")

  /**
   * Each row of the left stream with the version of its key that was valid at its time. A version is
   * valid from its time on, that instant included, until the next one of its key or a delete. Of
   * those with one key and one time the last counts: deletes come first, then the rows are in the
   * order of their columns, nulls first.
   *
   * @param key
   *   the columns of the right stream that tell the rows of the table apart; the condition has an
   *   equality for each
   * @param time
   *   the event-time column of the right stream
   * @param op
   *   a column of the right stream: insert, update or delete, as Debezium spells it, or as
   *   `readStream.changes` does. Without it all rows are versions.
   * @param asOf
   *   the event-time column of the left stream
   * @param history
   *   how far behind its watermark a row of the left stream may come: it is not late then, but comes
   *   out at once with what was valid at its time. The watermark of the output is behind by as much.
   */
  def temporal(
      joined: DataFrame,
      key: Seq[String],
      time: String,
      op: Option[String],
      asOf: String,
      history: Option[String] = None
  ): DataFrame = made(joined)(Temporal.temporal(_, VersionColumns(key, time, op), asOf, history))

  /**
   * Each row of the left stream with the closest of the right one that has its keys.
   *
   * @param condition
   *   how the event times of the two compare: `l.t >= r.t` looks back, `<=` ahead; `>` and `<` leave
   *   out what has the same time
   * @param tolerance
   *   how far apart they may be; where the join looks ahead there has to be one
   */
  def asof(joined: DataFrame, condition: Column, tolerance: Option[String]): DataFrame =
    joined.where(condition).asInstanceOf[ClassicDataset[Row]].queryExecution.analyzed match {
      case Filter(compared, join) => made(joined)(_ => Closest.asOf(join, compared, tolerance))
      case other => throw new IllegalArgumentException(s"no condition: $other")
    }

  /**
   * The same, by the names of the event-time columns.
   *
   * @param direction
   *   `backward`, `forward` or `nearest`: of two that are as close, the one before
   * @param allowsExact
   *   a row of the same time counts
   */
  def asof(
      joined: DataFrame,
      leftTime: String,
      rightTime: String,
      direction: String,
      allowsExact: Boolean,
      tolerance: Option[String]
  ): DataFrame = made(joined)(Closest.asOf(_, leftTime, rightTime, direction, allowsExact, tolerance))

  private def made(joined: DataFrame)(of: LogicalPlan => LogicalPlan): DataFrame = {
    val classic = joined.asInstanceOf[ClassicDataset[Row]]
    ClassicDataset.ofRows(classic.sparkSession, of(classic.queryExecution.analyzed))
  }
}
