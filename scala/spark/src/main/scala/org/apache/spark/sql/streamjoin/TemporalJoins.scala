package org.apache.spark.sql.streamjoin

import org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute
import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.catalyst.plans.logical.{Filter, Join, LogicalPlan}
import org.apache.spark.sql.classic.{Dataset => ClassicDataset}
import org.apache.spark.sql.streamjoin.analysis.{AsOfJoins, TemporalColumns}
import org.apache.spark.sql.{Column, DataFrame, Row}

/**
 * Joins of a stream with what was valid at the time of its rows, or with the closest rows of
 * another stream. `joined` is the plain join of the two, inner or left: `left.join(right,
 * condition, how)`.
 *
 * Durations are text as `withWatermark` takes it.
 */
object TemporalJoins {
  private def temporal(ordered: Boolean) =
    new AsOfJoins("sj.temporal_join", "temporal", ordered = ordered)
  private def closest(ordered: Boolean) = new AsOfJoins("sj.asof_join", "as-of", ordered = ordered)

  /**
   * Each row of the left stream with the version of its key that was valid at its time. A version
   * is valid from its time on, that instant included, until the next one of its key or a delete. Of
   * those with one key and one time the one with the greater `order` wins; without it, or where
   * that is the same too, a row wins over a delete, and without it of two rows the one with the
   * greater values, column by column from left to right, nulls lowest.
   *
   * @param key
   *   the columns of the right stream that tell the rows of the table apart; the condition has an
   *   equality for each
   * @param time
   *   the event-time column of the right stream
   * @param op
   *   a column of the right stream: insert, update or delete, as Debezium spells it, or as
   *   `readStream.changes` does. Without it all rows are versions.
   * @param order
   *   a column of the right stream such as a position in a log
   * @param asOf
   *   the event-time column of the left stream
   * @param history
   *   how far behind what has come out a row of the left stream may come: it is not late then, but
   *   comes out at once with what was valid at its time. The watermark of the output is behind by
   *   as much.
   * @param ordered
   *   the rows of a batch come in the order of `asOf`; without it they need no shuffle
   */
  def temporal(
      joined: DataFrame,
      key: Seq[String],
      time: String,
      op: Option[String],
      asOf: String,
      history: Option[String] = None,
      order: Option[String] = None,
      ordered: Boolean = true
  ): DataFrame = made(joined)(
    temporal(ordered).temporal(_, TemporalColumns(asOf, key, time, op, order), history)
  )

  /**
   * Each row of the left stream with the closest of the right one that has its keys.
   *
   * @param condition
   *   how the event times of the two compare: `l.t >= r.t` looks back, `<=` ahead; `>` and `<`
   *   leave out what has the same time
   * @param tolerance
   *   how far apart they may be; where the join looks ahead there has to be one
   * @param ordered
   *   the rows of a batch come in the order of the left time; without it they need no shuffle
   */
  def asof(
      joined: DataFrame,
      condition: Column,
      tolerance: Option[String],
      ordered: Boolean
  ): DataFrame = compared(joined, joined.where(condition), tolerance, ordered)

  def asof(joined: DataFrame, condition: Column, tolerance: Option[String]): DataFrame =
    asof(joined, condition, tolerance, ordered = true)

  private def asof(
      joined: DataFrame,
      condition: Expression,
      tolerance: Option[String],
      ordered: Boolean
  ): DataFrame = {
    val classic = joined.asInstanceOf[ClassicDataset[Row]]
    val filtered =
      ClassicDataset.ofRows(classic.sparkSession, Filter(condition, classic.queryExecution.analyzed))
    compared(joined, filtered, tolerance, ordered)
  }

  private def compared(
      joined: DataFrame,
      filtered: DataFrame,
      tolerance: Option[String],
      ordered: Boolean
  ): DataFrame =
    filtered.asInstanceOf[ClassicDataset[Row]].queryExecution.analyzed match {
      case Filter(condition, join) => made(joined)(_ => closest(ordered).asOf(join, condition, tolerance))
      case other => throw new IllegalArgumentException(s"no condition: $other")
    }

  /**
   * The same, with the condition in SQL: `l` and `r` are the inputs, unless one of them has such an
   * alias.
   */
  def asof(joined: DataFrame, condition: String, tolerance: Option[String], ordered: Boolean): DataFrame = {
    val classic = joined.asInstanceOf[ClassicDataset[Row]]
    val parsed = classic.sparkSession.sessionState.sqlParser.parseExpression(condition)
    val sides = classic.queryExecution.analyzed.collectFirst { case Join(left, right, _, _, _) =>
      Map("l" -> left, "r" -> right).filterNot { case (name, _) =>
        Seq(left, right).exists(isAlias(name, _))
      }
    }
    val ofSides = parsed.transform { case name @ UnresolvedAttribute(Seq(side, column)) =>
      sides.flatMap(_.get(side)).fold[Expression](name)(closest(ordered).column(_, column))
    }
    asof(joined, ofSides, tolerance, ordered)
  }

  def asof(joined: DataFrame, condition: String, tolerance: Option[String]): DataFrame =
    asof(joined, condition, tolerance, ordered = true)

  private def isAlias(name: String, input: LogicalPlan): Boolean =
    input.output.exists(_.qualifier.lastOption.contains(name))

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
      tolerance: Option[String],
      ordered: Boolean = true
  ): DataFrame = made(joined)(
    closest(ordered).asOf(_, leftTime, rightTime, direction, allowsExact, tolerance)
  )

  private def made(joined: DataFrame)(of: LogicalPlan => LogicalPlan): DataFrame = {
    val classic = joined.asInstanceOf[ClassicDataset[Row]]
    ClassicDataset.ofRows(classic.sparkSession, of(classic.queryExecution.analyzed))
  }
}
