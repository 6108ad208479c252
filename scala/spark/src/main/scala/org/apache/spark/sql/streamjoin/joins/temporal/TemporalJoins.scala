package org.apache.spark.sql.streamjoin.joins.temporal

import org.apache.spark.sql.catalyst.analysis.UnresolvedAttribute
import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.catalyst.plans.logical.{Filter, Join, LogicalPlan}
import org.apache.spark.sql.catalyst.util.quoteIfNeeded
import org.apache.spark.sql.classic.{Dataset => ClassicDataset}
import org.apache.spark.sql.streamjoin.analysis.{EventTimeOfInput, RewrittenFrame}
import org.apache.spark.sql.streamjoin.base.StreamJoinErrors
import org.apache.spark.sql.{Column, DataFrame, Row}

import streamjoin.core.Side

/**
 * Joins of a stream with the versions valid at the times of its rows, or with the closest rows of
 * another stream. `joined` is the plain join of the two, inner or left: `left.join(right,
 * condition, how)`.
 *
 * Durations are text, as in `withWatermark`.
 */
object TemporalJoins {
  private def temporal(ordered: Boolean) =
    new AsOfJoins("sj.temporal_join", "temporal", ordered = ordered)
  private def closest(ordered: Boolean) = new AsOfJoins("sj.asof_join", "as-of", ordered = ordered)

  /**
   * Joins each left row with the version of its key that was valid at its time. A version is valid
   * from its own time, inclusive, until the next version or delete of its key. Of two with the same
   * key and time, the one with the greater `order` wins. Without an order, or if it is the same,
   * the later one in its topic of Kafka wins, if that is known ([[changes.KafkaPosition]]).
   * Otherwise a row wins over a delete; without an order, of two rows the one with the greater
   * values wins, column by column from left to right, nulls lowest.
   *
   * @param key
   *   columns of the right stream that identify a row of the table, or fields of a column; the
   *   condition has an equality for each
   * @param time
   *   event-time column of the right stream
   * @param op
   *   column of the right stream: insert, update or delete, spelled as in Debezium or as in
   *   `readStream.changes`. Without it, all rows are versions.
   * @param order
   *   column of the right stream, such as a position in a log
   * @param asOf
   *   event-time column of the left stream
   * @param history
   *   how far a left row may be behind the rows emitted so far without being late: it is emitted at
   *   once, with the version valid at its time. The output watermark trails by as much.
   * @param ordered
   *   whether a batch emits its rows in the order of `asOf`; otherwise they need no shuffle
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

  /** The same, with versions as a user describes them; without `asOf`, by the left event time. */
  def temporal(
      joined: DataFrame,
      versions: VersionedInput,
      asOf: Option[String],
      history: Option[String],
      ordered: Boolean
  ): DataFrame = made(joined) {
    temporal(
      _,
      versions.key,
      versions.timeName,
      versions.opName,
      versions.orderName,
      asOf,
      history,
      ordered,
      versions.unavailable
    )
  }

  /** The same, of resolved plans. */
  private[streamjoin] def temporal(
      joined: LogicalPlan,
      key: Seq[String],
      time: String,
      op: Option[String],
      order: Option[String],
      asOf: Option[String],
      history: Option[String],
      ordered: Boolean,
      unavailable: Option[String]
  ): LogicalPlan = {
    val at = asOf.getOrElse(timeOf(joined, Side.Left, "sj.temporal_join")(first => s"as_of=\"$first\""))
    temporal(ordered).temporal(joined, TemporalColumns(at, key, time, op, order, unavailable), history)
  }

  /**
   * Joins each left row with the closest right row of the same keys.
   *
   * @param by
   *   how it is found, at most one; without it, backward
   */
  def asof(
      joined: DataFrame,
      by: Seq[Closest],
      tolerance: Option[String],
      ordered: Boolean
  ): DataFrame = by match {
    case Seq(Closest.ByColumn(condition)) => asof(joined, condition, tolerance, ordered)
    case Seq(Closest.BySql(condition)) => asof(joined, condition, tolerance, ordered)
    case other => made(joined)(asof(_, other, tolerance, ordered))
  }

  /** The same, of resolved plans, by a resolved condition or a direction. */
  private[streamjoin] def asof(
      joined: LogicalPlan,
      by: Seq[Closest],
      tolerance: Option[String],
      ordered: Boolean
  ): LogicalPlan = by match {
    case Seq() => asof(joined, Seq(Closest.InDirection("backward", allowsExact = true)), tolerance, ordered)
    case Seq(Closest.ByCondition(condition)) => closest(ordered).asOf(joined, condition, tolerance)
    case Seq(Closest.InDirection(direction, allowsExact)) =>
      def time(side: Side) = timeOf(joined, side, "sj.asof_join") { first =>
        if (side == Side.Left) s"match=\"l.$first >= r.time\"" else s"match=\"l.time >= r.$first\""
      }
      closest(ordered).asOf(joined, time(Side.Left), time(Side.Right), direction, allowsExact, tolerance)
    case _ =>
      throw StreamJoinErrors.analysis(
        "STREAMJOIN_TEMPORAL",
        "join" -> "as-of",
        "problem" -> "a condition and a direction both say how the times compare",
        "advice" -> "Write one of them."
      )
  }

  private def timeOf(joined: LogicalPlan, side: Side, call: String)(named: String => String): String = {
    val advice = EventTimeOfInput.Advice(
      "Read it by spark.readStream, with a watermark on its time.",
      call => s"Mark one before the join: $call.",
      first => s"Name the one that you mean: ${named(first)}."
    )
    val join = joined.collectFirst { case join: Join => join }.get
    quoteIfNeeded(EventTimeOfInput.of(join, side, call, advice).name)
  }

  /**
   * Joins each left row with the closest right row of the same keys.
   *
   * @param condition
   *   comparison of the two event times: `l.t >= r.t` looks back, `<=` ahead; `>` and `<` exclude
   *   equal times
   * @param tolerance
   *   largest distance between the two times; required if the join looks ahead
   * @param ordered
   *   whether a batch emits its rows in the order of the left time; otherwise they need no shuffle
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
   *   `backward`, `forward` or `nearest`; of two equally close rows, the earlier one matches
   * @param allowsExact
   *   whether a row of the same time matches
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

  private def made(joined: DataFrame)(of: LogicalPlan => LogicalPlan): DataFrame =
    RewrittenFrame.of(joined)(of)
}

/** How the closest row is found. */
sealed trait Closest

object Closest {

  /** A comparison of the two event times. */
  final case class ByColumn(condition: Column) extends Closest

  /** The same, resolved. */
  final private[streamjoin] case class ByCondition(condition: Expression) extends Closest

  /** The same in SQL. */
  final case class BySql(condition: String) extends Closest

  /**
   * Between the columns with a watermark.
   *
   * @param direction
   *   `backward`, `forward` or `nearest`
   */
  final case class InDirection(direction: String, allowsExact: Boolean) extends Closest
}
